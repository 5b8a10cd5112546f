//go:build unix

package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// picture is a PNG as an operation of the fake driver.
func picture(t *testing.T, name string, width, height int) (op string, data []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return "write:" + name + "=" + escaped(b.Bytes()), b.Bytes()
}

func escaped(p []byte) string {
	var text strings.Builder
	for _, c := range p {
		fmt.Fprintf(&text, `\x%02x`, c)
	}
	return text.String()
}

// TestLongOutput: head and tail are in the answer, it says what is left out, and the call that it names reads that.
func TestLongOutput(t *testing.T) {
	each(t, func(s *stand) {
		r := s.call("run_files", fake("eprint:a warning\\n", "flood:3000000").with("max_output_bytes", 3000))
		got := structured[ran](s, r)
		if got.Outcome != "ok" || got.Stdout.Bytes != 3_000_000 || got.Stderr.Text != "a warning\n" || !strings.HasPrefix(got.Stdout.Text, "0123456789") || !strings.HasSuffix(got.Stdout.Text, "0123456789") {
			s.T.Errorf("answer %+v", got)
		}
		if n := len(got.Stdout.Text); n > 3300 || n < 2500 {
			s.T.Errorf("%d bytes of text", n)
		}
		var omitted, offset int64
		var run string
		mark := got.Stdout.Text[strings.Index(got.Stdout.Text, "[..."):]
		if _, err := fmt.Sscanf(mark, "[... %d bytes are left out here; read_output with run %s channel stdout, offset %d reads them ...]", &omitted, &run, &offset); err != nil || omitted != got.Stdout.Omitted || strings.TrimSuffix(run, ",") != got.Run {
			s.T.Fatalf("mark %q: %v", mark, err)
		}
		tail := got.Stdout.Text[strings.Index(got.Stdout.Text, "...]\n")+5:]
		if offset+omitted+int64(len(tail)) != 3_000_000 {
			s.T.Errorf("%d at the head, %d left out, %d at the tail", offset, omitted, len(tail))
		}
		if !strings.Contains(text(r), mark[:50]) {
			s.T.Error("the text does not say that something is left out")
		}
		part := s.call("read_output", args{"run": got.Run, "channel": "stdout", "offset": offset, "length": 25})
		if want := fmt.Sprintf("bytes %d to %d of 3000000; go on at offset %d\n%s", offset, offset+25, offset+25, strings.Repeat("0123456789", 4)[offset%10:offset%10+25]); text(part) != want {
			s.T.Errorf("part %q, want %q", text(part), want)
		}
		again := structured[ran](s, s.call("run_status", args{"run": got.Run, "max_output_bytes": 3000}))
		if again.Stdout != got.Stdout || again.Stderr != got.Stderr {
			s.T.Errorf("later it is %+v, was %+v", again, got)
		}
		if said := text(s.call("read_output", args{"run": got.Run, "channel": "stdout", "offset": 5_000_000})); said != "there is nothing at this offset: it ends at byte 3000000\n" {
			s.T.Errorf("beyond the end: %q", said)
		}
	})
}

// TestOutputLimit: what is beyond the profile's output limit is not to be had, and the answer says so.
func TestOutputLimit(t *testing.T) {
	each(t, func(s *stand) {
		got := s.run(fake("flood:30000000"))
		if got.Outcome != "ok" || got.Stdout.Bytes != 30_000_000 || !got.Stdout.Truncated {
			s.T.Errorf("answer %+v", got)
		}
		if said := text(s.call("read_output", args{"run": got.Run, "channel": "stdout", "offset": 20_000_000})); !strings.Contains(said, "ends at byte 10485760") {
			s.T.Errorf("beyond the limit: %q", said)
		}
	})
}

// TestResults: what a program shows comes before pictures that it left, tables as Markdown; HTML is only listed.
func TestResults(t *testing.T) {
	each(t, func(s *stand) {
		plot, data := picture(s.T, ".silk/display/2.png", 3, 2)
		left, _ := picture(s.T, "left.png", 3, 2)
		r := s.call("run_files", fake(left, plot, `write:.silk/display/1.table.json={"columns": ["a|", "b"], "rows": [["<x>", 1]], "total": 9}`, "write:.silk/display/3.html=<script>", "write:.silk/display/4.txt=some text"))
		var images []*sdk.ImageContent
		for _, c := range r.Content {
			if i, ok := c.(*sdk.ImageContent); ok {
				images = append(images, i)
			}
		}
		if len(images) != 2 || !bytes.Equal(images[0].Data, data) {
			s.T.Errorf("%d images", len(images))
		}
		said := text(r)
		for _, want := range []string{"1.table.json, a table, 1 of 9 rows:", "| a&#124; | b |\n| --- | --- |\n| &#60;x&#62; | 1 |", "4.txt, text/plain:\n```\nsome text\n```"} {
			if !strings.Contains(said, want) {
				s.T.Errorf("%q is not in %s", want, said)
			}
		}
		if strings.Contains(said, "<script>") {
			s.T.Errorf("HTML is in %s", said)
		}
	})
}

// TestImages: pictures come as images, and what cannot be shown is said.
func TestImages(t *testing.T) {
	each(t, func(s *stand) {
		plot, data := picture(s.T, "plots/a b%.png", 30, 20)
		wide, _ := picture(s.T, "wide.png", 9000, 1)
		r := s.call("run_files", fake(plot, wide, "write:fake.png="+escaped(data[:20]), "write:note.txt=hello", "write:bytes=\\x00\\xff"))
		got := structured[ran](s, r)
		var images []*sdk.ImageContent
		for _, c := range r.Content {
			if i, ok := c.(*sdk.ImageContent); ok {
				images = append(images, i)
			}
		}
		if got.Outcome != "ok" || len(images) != 1 || images[0].MIMEType != "image/png" || !bytes.Equal(images[0].Data, data) {
			s.T.Fatalf("%d images in %+v", len(images), got)
		}
		for _, want := range []string{"wide.png is not shown: it has 9000 by 1 pixels", "fake.png is not shown: it is not the image"} {
			if !strings.Contains(text(r), want) {
				s.T.Errorf("%q is not in %s", want, text(r))
			}
		}
		single := s.call("read_output", args{"run": got.Run, "artifact": "plots/a b%.png"})
		if i, ok := single.Content[0].(*sdk.ImageContent); !ok || !bytes.Equal(i.Data, data) || single.StructuredContent != nil {
			s.T.Errorf("read_output of an image: %+v", single)
		}
		if said := text(s.call("read_output", args{"run": got.Run, "artifact": "note.txt"})); said != "bytes 0 to 5 of 5\nhello" {
			s.T.Errorf("a text: %q", said)
		}
		if said := text(s.call("read_output", args{"run": got.Run, "artifact": "bytes", "base64": true})); said != "bytes 0 to 2 of 2\n"+base64.StdEncoding.EncodeToString([]byte{0, 0xff}) {
			s.T.Errorf("bytes: %q", said)
		}
		for _, name := range []string{"../../../silk.db", "/etc/passwd", "plots", "nothing", "plots/../note.txt"} {
			if r := s.call("read_output", args{"run": got.Run, "artifact": name}); !r.IsError || strings.Contains(text(r), s.Home) {
				s.T.Errorf("artifact %s: %s", name, text(r))
			}
		}
		list, err := s.client.ListResources(s.T.Context(), nil)
		if err != nil {
			s.T.Fatal(err)
		}
		uris := map[string]*sdk.Resource{}
		for _, r := range list.Resources {
			uris[r.URI] = r
		}
		for _, a := range got.Artifacts {
			if uris[a.URI] == nil {
				s.T.Errorf("%s (%s) is not in the list of resources", a.Path, a.URI)
				continue
			}
			whole, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: a.URI})
			if err != nil {
				s.T.Fatal(err)
			}
			c := whole.Contents[0]
			if a.Path == "note.txt" && c.Text != "hello" || a.Path == "bytes" && !bytes.Equal(c.Blob, []byte{0, 0xff}) || a.Path == "plots/a b%.png" && !bytes.Equal(c.Blob, data) {
				s.T.Errorf("resource %s: %+v", a.URI, c)
			}
		}
		for _, uri := range []string{"silk://runs/" + got.Run + "/artifacts/../../silk.db", "silk://runs/" + got.Run + "/artifacts/%2e%2e%2fsilk.db", "silk://runs/" + got.Run + "/output/stdin", "silk://handoffs/x", "file:///etc/passwd", "silk://runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/record"} {
			if whole, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				s.T.Errorf("%s: %+v", uri, whole.Contents[0])
			}
		}
		if whole, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: "silk://runs"}); err != nil || !strings.Contains(whole.Contents[0].Text, got.Run) {
			s.T.Errorf("list of runs: %+v, %v", whole, err)
		}
	})
}

// TestManyArtifacts: lists are cut, and say so.
func TestManyArtifacts(t *testing.T) {
	each(t, func(s *stand) {
		ops := []string{}
		for i := range 60 {
			ops = append(ops, "write:f"+strconv.Itoa(i)+"=x")
		}
		r := s.call("run_files", fake(ops...))
		if got := structured[ran](s, r); len(got.Artifacts) != 50 || got.More != 10 || !strings.Contains(text(r), "and 10 more") {
			s.T.Errorf("answer %+v", got)
		}
	})
}

// TestHandoffs: what was handed on of a run that did not end well is a resource, with its code and log.
func TestHandoffs(t *testing.T) {
	each(t, func(s *stand) {
		got := s.run(fake("print:before", "violate:file.accounts,openat,/etc/passwd"))
		list, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: "silk://handoffs"})
		if err != nil {
			s.T.Fatal(err)
		}
		var entries []struct{ Handoff, Run, Receiver string }
		if err := json.Unmarshal([]byte(list.Contents[0].Text), &entries); err != nil || len(entries) != 2 || entries[0].Run != got.Run {
			s.T.Fatalf("list %s, %v", list.Contents[0].Text, err)
		}
		one, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: "silk://handoffs/" + entries[0].Handoff})
		if err != nil || !strings.Contains(one.Contents[0].Text, `"silk.handoff/v1"`) || !strings.Contains(one.Contents[0].Text, "before") {
			s.T.Errorf("one of them: %+v, %v", one, err)
		}
		if _, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: "silk://handoffs/" + got.Run}); err == nil {
			s.T.Error("there is a hand-off of another id")
		}
	})
}
