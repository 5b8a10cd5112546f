package display

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func picture(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// chunk is one part of a PNG.
func chunk(kind, data string) []byte {
	body := []byte(kind + data)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	return binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
}

func TestCheck(t *testing.T) {
	good := picture(t, 3, 2)
	header := func(width, height uint32) string {
		b := binary.BigEndian.AppendUint32(nil, width)
		return string(append(binary.BigEndian.AppendUint32(b, height), 8, 0, 0, 0, 0))
	}
	made := func(chunks ...[]byte) string { return pngSignature + string(bytes.Join(chunks, nil)) }
	damaged := bytes.Clone(good)
	damaged[20]++
	for _, test := range []struct{ name, path, content, mime, why string }{
		{"a picture", Dir + "/0001.png", string(good), PNG, ""},
		{"a vector picture", Dir + "/a.svg", "<svg/>", SVG, ""},
		{"HTML", Dir + "/a_b-C.html", "<script>", HTML, ""},
		{"JSON", Dir + "/a.json", `{"a": 1}`, JSON, ""},
		{"a table", Dir + "/a.table.json", `{"columns": ["a"], "rows": []}`, Table, ""},
		{"text", Dir + "/a.txt", "ä", Text, ""},

		{"another directory", "display/a.png", string(good), "", "its name is none"},
		{"a directory below", Dir + "/a/b.png", string(good), "", "its name is none"},
		{"a way out", Dir + "/../a.png", string(good), "", "its name is none"},
		{"a hidden name", Dir + "/.a.png", string(good), "", "its name is none"},
		{"a name with a break", Dir + "/a\nb.png", string(good), "", "its name is none"},
		{"a long name", Dir + "/" + strings.Repeat("a", 65) + ".png", string(good), "", "its name is none"},
		{"no name", Dir + "/.png", string(good), "", "its name is none"},
		{"another ending", Dir + "/a.js", "x", "", "its name is none"},
		{"a picture that is text", Dir + "/a.png", "<svg/>", "", "it is no PNG"},
		{"a picture that is cut off", Dir + "/a.png", string(good[:len(good)-1]), "", "cut off"},
		{"a picture without an end", Dir + "/a.png", string(good[:len(good)-12]), "", "cut off"},
		{"a picture with more after it", Dir + "/a.png", string(good) + "<script>", "", "something comes after"},
		{"a damaged picture", Dir + "/a.png", string(damaged), "", `the sum of its part "IHDR" is wrong`},
		{"a wide picture", Dir + "/a.png", made(chunk("IHDR", header(8001, 1)), chunk("IEND", "")), "", "8001 by 1 pixels"},
		{"a large picture", Dir + "/a.png", made(chunk("IHDR", header(5000, 5000)), chunk("IEND", "")), "", "5000 by 5000 pixels"},
		{"two heads", Dir + "/a.png", made(chunk("IHDR", header(1, 1)), chunk("IHDR", header(1, 1)), chunk("IEND", "")), "", "second one"},
		{"no head", Dir + "/a.png", made(chunk("IEND", "")), "", "does not begin"},
		{"a length that lies", Dir + "/a.png", pngSignature + "\xff\xff\xff\xffIHDR\x00\x00\x00\x00", "", "cut off"},
		{"text that is none", Dir + "/a.txt", "\xff", "", "no text"},
		{"text with a zero", Dir + "/a.html", "a\x00", "", "no text"},
		{"JSON that is none", Dir + "/a.json", "{", "", "no JSON"},
		{"a table that is none", Dir + "/a.table.json", "{}", "", "0 columns"},
		{"much", Dir + "/a.txt", strings.Repeat("a", MaxBytes+1), "", "more than 8388608 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mime, err := Check(test.path, []byte(test.content))
			switch {
			case test.why == "" && (err != nil || mime != test.mime):
				t.Errorf("got %q, %v, want %q", mime, err, test.mime)
			case test.why != "" && (err == nil || !strings.Contains(err.Error(), test.why)):
				t.Errorf("got %q, %v, want %q", mime, err, test.why)
			}
		})
	}
}

func TestParseTable(t *testing.T) {
	g, err := ParseTable([]byte(`{"columns": ["a", "b"], "rows": [[1.50, "x"], [null, true], [12345678901234567890, ""]], "total": 9}`))
	want := Grid{Columns: []string{"a", "b"}, Rows: [][]string{{"1.50", "x"}, {"", "true"}, {"12345678901234567890", ""}}, Total: 9}
	if diff := cmp.Diff(want, g); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, test := range []struct{ text, why string }{
		{`{"columns": ["a"], "rows": [[1, 2]]}`, "row 1 of the table has 2 cells, the head 1"},
		{`{"columns": ["a"], "rows": [[[1]]]}`, "a cell is a list"},
		{`{"columns": ["a"], "rows": [[{}]]}`, "a cell is a list or an object"},
		{`{"columns": ["a"], "rows": [[1]], "total": 0}`, "total is 0"},
		{`{"columns": ["a"], "rows": [], "x": 1}`, "unknown field"},
		{`{"columns": ["a"], "rows": []} {}`, "something after it"},
		{fmt.Sprintf(`{"columns": [%s"a"], "rows": []}`, strings.Repeat(`"a",`, MaxColumns)), "65 columns"},
		{fmt.Sprintf(`{"columns": ["a"], "rows": [%s[1]]}`, strings.Repeat(`[1],`, MaxRows)), "1001 rows"},
	} {
		if _, err := ParseTable([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%.60s: got %v, want %q", test.text, err, test.why)
		}
	}
}

func TestMarkdown(t *testing.T) {
	g := Grid{Columns: []string{"a|b", "c", "d"}, Rows: [][]string{{"1\n2", "[[x]]", "y"}, {"<b>", "`$= x`", "y"}, {"z", "z", "z"}}, Total: 3}
	want := []string{
		"| a&#124;b | c |",
		"| --- | --- |",
		"| 1 2 | &#91;&#91;x&#93;&#93; |",
		"| &#60;b&#62; | &#96;&#36;&#61; x&#96; |",
	}
	if diff := cmp.Diff(want, g.Markdown(2, 2)); diff != "" {
		t.Error(diff)
	}
	if got := Inert("a\u202eb\x1b[0m" + strings.Repeat("x", 300)); strings.ContainsAny(got, "\u202e\x1b[") || len([]rune(got)) > 230 {
		t.Errorf("got %q", got)
	}
}

// What is hostile never becomes structure: each line has as many bars as columns want, and only characters that mean nothing.
func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"columns": ["a|"], "rows": [["\n|[[x]]%%"]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ParseTable(text)
		if err != nil {
			return
		}
		for _, line := range g.Markdown(50, 20) {
			if n := strings.Count(line, "|"); n != min(20, len(g.Columns))+1 {
				t.Errorf("%d bars in %q", n, line)
			}
			if strings.ContainsAny(line, "\n\r<>[]`$*_\\~^!\"'()={}/:@") {
				t.Errorf("%q", line)
			}
		}
	})
}

func FuzzPNG(f *testing.F) {
	f.Add(picture(f, 2, 2))
	f.Fuzz(func(t *testing.T, content []byte) {
		if CheckPNG(content) != nil {
			return
		}
		if c, err := png.DecodeConfig(bytes.NewReader(content)); err != nil || c.Width*c.Height > MaxPixels {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
