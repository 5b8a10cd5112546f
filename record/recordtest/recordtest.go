// Package recordtest holds records to the schema that is published. It is for tests, of every package that makes records.
package recordtest

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/record"
)

const name = "urn:silk:schema:run-record:v1"

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.RecordSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

// Check says what is wrong with a record in the form in which it is stored, signed and sent.
func Check(text []byte) error {
	s, err := schema()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// CheckAll checks all records of a database, those of runs that have not ended too, and returns how many there were.
func CheckAll(ctx context.Context, t testing.TB, db record.Querier) (n int) {
	t.Helper()
	rows, err := db.QueryContext(ctx, "SELECT id, record FROM runs")
	if err != nil {
		t.Errorf("read records: %v", err)
		return 0
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		var run, text string
		if err := rows.Scan(&run, &text); err != nil {
			t.Errorf("read records: %v", err)
			return n
		}
		if err := Check([]byte(text)); err != nil {
			t.Errorf("the record of run %s is not as its schema says: %v\n%s", run, err, text)
		}
	}
	if err := rows.Err(); err != nil {
		t.Errorf("read records: %v", err)
	}
	return n
}
