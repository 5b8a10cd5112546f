package api

// NoteRequest is a note whose blocks of code are looked for.
type NoteRequest struct {
	Text string `json:"text" doc:"The whole note, 4194304 bytes of UTF-8 at most"`
}

// NoteBlocks are the fenced blocks of code in a note.
type NoteBlocks struct {
	Blocks []NoteBlock `json:"blocks"`
	Fault  string      `json:"fault,omitempty" doc:"Why the note was not looked at, and has no blocks"`
}

// NoteBlock is one fenced block of code in a note. Lines count from 0, and end with LF, CR LF or CR.
type NoteBlock struct {
	Line    int `json:"line" doc:"Of the opening fence"`
	EndLine int `json:"end_line" doc:"Of the closing fence"`

	Language   string            `json:"language" doc:"Name of the language, or the fence's first word if no language is called so"`
	Profile    string            `json:"profile" doc:"That it runs with; empty if it is not runnable"`
	Attributes map[string]string `json:"attributes" doc:"Of {silk ...}, and those of the front matter that the fence does not have"`
	Runnable   bool              `json:"runnable"`
	Reason     string            `json:"reason" doc:"Why it is not runnable"`
	Code       string            `json:"code" doc:"Without the indentation and quoting of the fence"`
	CodeHash   string            `json:"code_hash" doc:"Of language, attributes and code: by it the block is found again"`

	Request *RunRequest `json:"request,omitempty" doc:"What to ask for to run it; absent if it is not runnable"`
	Result  *NoteResult `json:"result,omitempty" doc:"Where the result of its last run is"`
}

// NoteResult is where the result of a block is, from its first line to its last.
type NoteResult struct {
	Line    int    `json:"line"`
	EndLine int    `json:"end_line"`
	Run     string `json:"run" doc:"Whose result it is; empty if it does not say"`
}

// NoteResultRequest asks for the result of a run in a note, under the block that was run.
type NoteResultRequest struct {
	Text        string  `json:"text" doc:"The whole note as it is now, 4194304 bytes of UTF-8 at most"`
	Before      *string `json:"before,omitempty" doc:"The whole note as it was when the line was taken; it tells copies of one block apart"`
	Line        int     `json:"line" minimum:"0" doc:"Of the block's opening fence: in before, if that is given, else in text"`
	CodeHash    string  `json:"code_hash" minLength:"64" maxLength:"64" doc:"Of the block"`
	Run         string  `json:"run" pattern:"^[0-9A-HJKMNP-TV-Z]{26}$" doc:"A run that has ended"`
	Attachments string  `json:"attachments,omitempty" maxLength:"400" doc:"Folder of the vault for pictures that the run has made; left out, they are not shown" example:"attachments"`
}

// NoteCleanRequest asks for a note without the result under one of its blocks.
type NoteCleanRequest struct {
	Text     string `json:"text" doc:"The whole note as it is now, 4194304 bytes of UTF-8 at most"`
	Line     int    `json:"line" minimum:"0" doc:"Of the block's opening fence"`
	CodeHash string `json:"code_hash" minLength:"64" maxLength:"64" doc:"Of the block"`
}

// NoteText is a note into which a result was put, or from which one was taken.
type NoteText struct {
	Text   string      `json:"text" doc:"The whole note"`
	Line   int         `json:"line" doc:"Of the block's opening fence"`
	Images []NoteImage `json:"images" doc:"Pictures that the result shows: put each artifact at its path of the vault"`
	Unused []string    `json:"unused" doc:"Paths in the vault of pictures that an earlier result showed and this note does not name any more: remove each that nothing else in the vault shows"`
}

// NoteImage is a picture that a result shows.
type NoteImage struct {
	Artifact string `json:"artifact" doc:"Its path in the run"`
	Path     string `json:"path" doc:"Its path in the vault, with slashes"`
}
