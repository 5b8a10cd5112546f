package approval

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilesAreKept(t *testing.T) {
	db := open(t)
	r := request("01A", "tok", "import lib\n")
	r.Files = []Upload{{Name: "lib.py", Content: "evil()\r\n", Executable: true}, {Name: "\u202eb", Content: "\x00\xff"}, {Name: "empty"}}
	r.Stdin = "1 2 3\n"
	asked := ask(t, db, r)
	want := []File{
		{Name: Stdin, Bytes: 6, SHA256: sum("1 2 3\n"), Text: "1 2 3\n"},
		{Name: "/workspace/lib.py", Bytes: 8, SHA256: sum("evil()\r\n"), Executable: true, Text: "evil()⟨U+000D⟩\n"},
		{Name: "/workspace/⟨U+202E⟩b", Bytes: 2, SHA256: sum("\x00\xff"), Text: "⟨U+0000⟩⟨0xFF⟩"},
		{Name: "/workspace/empty", SHA256: sum("")},
	}
	got, err := Get(t.Context(), db, "01A")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Files); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(asked, got); d != "" {
		t.Errorf("Ask returns something else than what is stored: %s", d)
	}
	if list, err := List(t.Context(), db, Filter{}); err != nil || list[0].Files != nil {
		t.Errorf("a list has the files: %v", err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	r := Request{StdinOpen: true}
	for i := range MaxFiles + 5 {
		r.Files = append(r.Files, Upload{Name: strings.Repeat("d/", 2000) + fmt.Sprint(i), Content: strings.Repeat("x", 8<<10)})
	}
	all := r.files()
	if len(all) != MaxFiles+2 || all[0].Name != Stdin || all[0].SHA256 != "" || all[0].Omitted == "" {
		t.Fatalf("%d files, the first is %+v", len(all), all[0])
	}
	shown, names := 0, map[string]bool{}
	for i, f := range all[1 : len(all)-1] {
		if (f.Omitted == "") != (i < MaxFilesBytes/(8<<10)) || f.Bytes != 8<<10 || f.SHA256 == "" || len(f.Name) > 600 {
			t.Errorf("file %d has %d bytes of text, %q, and a name of %d bytes", i, len(f.Text), f.Omitted, len(f.Name))
		}
		shown += len(f.Text)
		names[f.Name] = true
	}
	if shown > MaxFilesBytes || len(names) != MaxFiles {
		t.Errorf("%d bytes are shown, under %d names", shown, len(names))
	}
	if last := all[len(all)-1]; last.Name != "" || last.Omitted != "5 files more, not shown and not named" {
		t.Errorf("the last one is %+v", last)
	}
}
