// Package record keeps one record of every run, the refused ones included: what was asked, what was decided, what ran,
// how it ended and what came out, by hash.
//
// A [Record] has a versioned schema, [Schema]. Records live in the store's runs table; [Get] and [List] read them. The
// package keeps no audit trail (package audit does) and decides nothing.
package record

// Schema names the version of [Record]'s JSON form.
const Schema = "silk.run-record/v1"

// Tool is one program or package inside an image, from the image's lock.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}
