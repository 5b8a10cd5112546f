package api

// Problem is an answer that is not the one that was asked for: problem details of RFC 9457. Type names the kind of problem
// for programs, and is not an address.
type Problem struct {
	Type   string `json:"type" example:"urn:silk:invalid" doc:"Kind of problem"`
	Title  string `json:"title" doc:"The kind in words"`
	Status int    `json:"status" doc:"HTTP status code"`
	Detail string `json:"detail,omitempty" doc:"What is wrong this time"`

	Errors []FieldError `json:"errors,omitempty" doc:"Each thing that is wrong with the request"`

	Rule         string `json:"rule,omitempty" doc:"Of a denial"`
	Fix          string `json:"fix,omitempty" doc:"What can be done about a denial"`
	Run          string `json:"run,omitempty" doc:"The run that has the record of the denial, or that is in the way"`
	Offset       *int64 `json:"offset,omitempty" doc:"Of input that was refused: where the next piece begins"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty" doc:"Try again then; as Retry-After, which has whole seconds"`
}

// FieldError is one thing that is wrong with a request.
type FieldError struct {
	Field  string `json:"field" example:"body.limits.memory_bytes" doc:"Where: path, query, header or body, and the way inside"`
	Detail string `json:"detail" doc:"What is wrong, and what would be right"`
}

// Error implements error.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		text += "; " + e.Field + ": " + e.Detail
	}
	return text
}

// GetStatus is the HTTP status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of problem details: RFC 9457 section 6.1.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
