package api

import _ "embed"

// RecordSchema is the JSON Schema (draft 2020-12) of the record of a run, silk.run-record/v1.
//
//go:embed record.schema.json
var RecordSchema []byte
