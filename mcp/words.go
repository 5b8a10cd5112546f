package mcp

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const validating = `validating "arguments": `

// plainly is middleware that says what is wrong with arguments as one says it to a model: the field, and what is allowed.
func (s *Server) plainly(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		out, err := next(ctx, method, req)
		call, ok := req.(*sdk.CallToolRequest)
		result, isResult := out.(*sdk.CallToolResult)
		if err != nil || !ok || !isResult || !result.IsError || len(result.Content) != 1 {
			return out, err
		}
		if text, ok := result.Content[0].(*sdk.TextContent); ok {
			if fault, ok := strings.CutPrefix(text.Text, validating); ok {
				text.Text = faultOf(fault, s.schemas[call.Params.Name])
			}
		}
		return out, nil
	}
}

var (
	whereFault = regexp.MustCompile(`^validating (root|/[^ ]*): `)
	missing    = regexp.MustCompile(`^required: missing properties: \[(.*)\]$`)
	unexpected = regexp.MustCompile(`^unexpected additional properties \[(.*)\]$`)
	otherType  = regexp.MustCompile(`^type: (?s:.*) has type "(\w+)", want (?:one of )?"([\w, ]+)"$`)
	below      = regexp.MustCompile(`^(?:exclusiveM|m)inimum: `)
	above      = regexp.MustCompile(`^(?:exclusiveM|m)aximum: `)
)

// faultOf says what the validator has said of arguments, in the words of people. What it says otherwise stays.
func faultOf(fault string, in *jsonschema.Schema) string {
	field, at := "arguments", in
	for {
		m := whereFault.FindStringSubmatch(fault)
		if m == nil {
			break
		}
		fault = fault[len(m[0]):]
		if m[1] == "root" {
			continue
		}
		field, at = strings.TrimPrefix(strings.ReplaceAll(strings.ReplaceAll(m[1], "/properties/", "."), "/items", "[]"), "."), in
		for part := range strings.SplitSeq(m[1], "/") {
			switch {
			case at == nil || part == "" || part == "properties":
			case part == "items":
				at = at.Items
			default:
				at = at.Properties[part]
			}
		}
	}
	number := func(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }
	switch m := []string(nil); {
	case at == nil:
	case match(missing, fault, &m):
		return field + ": " + names(m[1]) + " is missing"
	case match(unexpected, fault, &m):
		known := make([]string, 0, len(at.Properties))
		for name := range at.Properties {
			known = append(known, name)
		}
		slices.Sort(known)
		return field + ": there is no " + names(m[1]) + "; there are " + strings.Join(known, ", ")
	case match(otherType, fault, &m):
		return field + " is of type " + m[1] + "; it must be of type " + strings.ReplaceAll(strings.TrimPrefix(m[2], "null, "), ", ", " or ")
	case strings.HasPrefix(fault, "enum: "):
		var allowed []string
		for _, v := range at.Enum {
			if text, ok := v.(string); ok {
				allowed = append(allowed, text)
			}
		}
		return field + " is one of " + strings.Join(allowed, ", ")
	case below.MatchString(fault) && at.Minimum != nil:
		return field + " must be " + number(at.Minimum) + " or more"
	case below.MatchString(fault) && at.ExclusiveMinimum != nil:
		return field + " must be above " + number(at.ExclusiveMinimum)
	case above.MatchString(fault) && at.Maximum != nil:
		return field + " must be " + number(at.Maximum) + " or less"
	case strings.HasPrefix(fault, "minItems: ") && at.MinItems != nil && *at.MinItems == 1:
		return field + " must not be empty"
	case strings.HasPrefix(fault, "pattern: ") && at.Pattern == runPattern:
		return field + " must be the id of a run: 26 digits and capital letters, as run_code returned it"
	}
	return field + ": " + fault
}

func match(re *regexp.Regexp, text string, m *[]string) bool {
	*m = re.FindStringSubmatch(text)
	return *m != nil
}

// names are those of a list in quotation marks.
func names(list string) string {
	return strings.ReplaceAll(strings.ReplaceAll(list, `"`, ""), " ", ", ")
}
