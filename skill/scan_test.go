package skill

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rulesOf scans one file and returns the rules that it meets, by line: "2 dynamic_eval".
func rulesOf(file, src string) (found []string) {
	for _, f := range Scan([]Source{{Path: file, Text: []byte(src)}}, Manifest{}) {
		found = append(found, string(rune('0'+f.Line))+" "+f.Rule)
	}
	return found
}

func TestScanJavaScript(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"nothing", "", ""},
		{"a regular expression's exec", "const m = /a(b)/.exec(s); re.exec(s); RegExp('x').exec(s)", ""},
		{"comments", "// eval(x)\n/* fetch(y)\nrequire('child_process') */", ""},
		{"strings", `console.log("eval(x)", 'require("net")', ` + "`fetch(y)`" + `, "child_process")`, ""},
		{"a list of names", `const bad = ["child_process", "eval", "net"]`, ""},
		{"a member", "sandbox.eval(x); api.fetch(u); o.Function('x')", ""},
		{"keys", "const o = {eval: 1, fetch: 2}", ""},
		{"longer names", "evaluate(x); prefetch(y); execute(z); myFunction()", ""},
		{"a regular expression with what looks like code", `if (/eval\(|fetch\("/.test(s)) x = a / b / c`, ""},
		{"a regular expression after a condition", `if (x) /"/.test(y); z = "eval(x)"`, ""},
		{"a regular expression after a block", "{ f() }\n/'/.test(y); z = 'fetch(x)'", ""},
		{"harmless modules", "import fs from 'node:fs'; const path = require('path')", ""},
		{"instanceof Function", "x instanceof Function; Function.prototype", ""},

		{"eval", "\neval(x)", "2 dynamic_eval"},
		{"indirect eval", "(0, eval)(x)", "1 dynamic_eval"},
		{"eval by another name", "const e = eval", "1 dynamic_eval"},
		{"eval of the global object", "globalThis.eval(x)", "1 dynamic_eval"},
		{"eval as a member of it by text", `globalThis["ev" + "al"](x)`, "1 dynamic_eval"},
		{"eval in an optional call", "eval?.(x)", "1 dynamic_eval"},
		{"eval with an escaped letter", `\u0065val(x)`, "1 dynamic_eval,1 obfuscation"},
		{"eval in a template", "`a ${ eval(x) } b`", "1 dynamic_eval"},
		{"eval in a template in a template", "`a ${ `b ${ eval(x) }` } b`", "1 dynamic_eval"},
		{"eval after a template", "`a ${ {a: 1}.a } b`; eval(x)", "1 dynamic_eval"},
		{"eval after a division", "a = b / c; eval(x); d = e / f", "1 dynamic_eval"},
		{"eval between divisions of values in brackets", "a = (b) / eval(x) / c", "1 dynamic_eval"},
		{"eval between divisions of an object", "a = {} / eval(x) / c", "1 dynamic_eval"},
		{"eval behind a comment that another end of line ends", "// a\u2028eval(x)", "1 dynamic_eval"},
		{"eval behind a number", "1..x; eval(x)", "1 dynamic_eval"},
		{"Function", "new Function('return 1')", "1 dynamic_eval"},
		{"Function without new", "Function('return 1')()", "1 dynamic_eval"},
		{"Function by constructor", "(() => {}).constructor.constructor('x')()", "1 dynamic_eval"},
		{"constructor by text", `[]["constructor"]["constructor"]("x")`, "1 dynamic_eval"},
		{"setTimeout with text", `setTimeout("go()", 1); setTimeout(go, 1)`, "1 dynamic_eval"},
		{"vm", "import vm from 'node:vm'", "1 dynamic_eval"},

		{"child_process", "const cp = require('child_process');\ncp.exec('ls')", "1 child_process"},
		{"child_process in a template", "require(`node:child_process`)", "1 child_process"},
		{"child_process imported", `import { exec } from "node:child_process"`, "1 child_process"},
		{"child_process imported while running", `await import("child_process")`, "1 child_process"},
		{"child_process in parts", `require("child_" + "process")`, "1 child_process"},
		{"child_process with escapes", `require("\x63hild_process")`, "1 child_process"},
		{"child_process by createRequire", "const r = createRequire(import.meta.url);\nr('child_process')", "2 child_process"},
		{"child_process by process", "process.getBuiltinModule('child_process'); process.mainModule.require('child_process')", "1 child_process"},
		{"a binding", "process.binding('spawn_sync')", "1 child_process"},
		{"in TypeScript", `import cp = require("child_process"); let a: Map<string, number> = x as any`, "1 child_process"},
		{"Deno", "new Deno.Command('ls')", "1 child_process"},

		{"fetch", "const r = await fetch(url)", "1 network_access"},
		{"fetch by another name", "const f = globalThis.fetch; f(u)", "1 network_access"},
		{"sockets", "import net from 'net'\nconst tls = require('node:tls')\nimport dns from 'node:dns/promises'", "1 network_access,2 network_access,3 network_access"},
		{"WebSocket", "new WebSocket(u)", "1 network_access"},
		{"an export from a module", "export * from 'http'", "1 network_access"},
		{"a module for its effect", "import 'undici'", "1 network_access"},

		{"writing", "fs.writeFileSync('/tmp/x', y)", "1 fs_write"},
		{"removing", "import * as files from 'node:fs/promises'\nfiles.rm(x)", "2 fs_write"},
		{"rm of something else", "list.rm(x); map.link(y)", ""},

		{"a computed module", "require(name)", "1 obfuscation"},
		{"a computed import", "import(`./${name}.js`)", "1 obfuscation"},
		{"a module that is no code", "require('./data.txt')", "1 obfuscation"},
		{"names of an obfuscator", "const _0x4f2a = 1", "1 obfuscation"},
		{"text as numbers", `x = "\x65\x76\x61\x6c\x28\x78\x29\x3b\x61\x62"`, "1 obfuscation"},
		{"text as numbers in a call", "String.fromCharCode(101,118,97,108,40,49,41,59,10,10)", "1 obfuscation"},
		{"a computed global", "globalThis[x]()", "1 obfuscation"},
		{"a long line", "x = '" + strings.Repeat("ab ", 700) + "'", "1 obfuscation"},
		{"turned text", "x = 1 // \u202e", "1 obfuscation"},
		{"text without an end", "x = 'abc\ny = 1", "1 obfuscation"},
		{"a comment without an end", "/* eval(x)", "1 obfuscation"},

		{"several rules of one line", "eval(x); fetch(y); eval(z)", "1 dynamic_eval,1 network_access"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(rulesOf("a.mjs", tt.src), ","); got != tt.want {
				t.Errorf("%s\ngot  %s\nwant %s", tt.src, got, tt.want)
			}
		})
	}
}

func TestScanPython(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"nothing", "", ""},
		{"comments and strings", "# eval(x)\ns = 'exec(y)'\n\"\"\"import socket\nos.system('x')\n\"\"\"", ""},
		{"members", "df.eval('a+b'); re.compile('x'); model.exec(x)", ""},
		{"a name imported over", "from re import compile\ncompile('x')", ""},
		{"arguments", "f(eval=1, open=2)", ""},
		{"reading", "open('x'); open('y', 'rb'); open('w')", ""},
		{"harmless modules", "import json, math\nfrom urllib.parse import quote\nimport urllib.parse\nfrom os import path\nimport http", ""},
		{"harmless members", "platform.system(); self.run(); socket_path = 1; requests = []\nrequests.append(1)", ""},
		{"a string with a prefix", `rb'\x65'; u"eval(x)"; f'{x!r:>10}'`, ""},

		{"eval", "\neval(x)", "2 dynamic_eval"},
		{"exec", "exec(code)", "1 dynamic_eval"},
		{"eval by another name", "e = eval\ne(x)", "1 dynamic_eval"},
		{"eval handed over", "map(eval, xs)", "1 dynamic_eval"},
		{"of builtins", "import builtins\nbuiltins.exec(x)", "2 dynamic_eval"},
		{"of __builtins__", "__builtins__.eval(x)", "1 dynamic_eval"},
		{"of builtins by text", "getattr(__builtins__, n)(x)", "1 dynamic_eval"},
		{"by globals", `globals()["eval"](x)`, "1 dynamic_eval"},
		{"in wide letters", "ｅｖａｌ(x)", "1 dynamic_eval,1 obfuscation"},
		{"in letters for mathematics", "𝐞𝐯𝐚𝐥(x)", "1 dynamic_eval,1 obfuscation"},
		{"in an f-string", "f'{eval(x)}'", "1 dynamic_eval"},
		{"in the format of an f-string", "f'{x:{eval(y)}}'", "1 dynamic_eval"},
		{"in an f-string in an f-string", `f"{f"{eval(x)}"}"`, "1 dynamic_eval"},
		{"in a long f-string", "f'''\n{eval(x)}\n'''", "2 dynamic_eval"},
		{"__import__", "__import__('os').system('x')", "1 dynamic_eval"},
		{"compile", "compile(s, 'f', 'exec')", "1 dynamic_eval"},

		{"subprocess", "import subprocess\nsubprocess.run(['ls'])", "1 child_process,2 child_process"},
		{"from subprocess", "from subprocess import run as r", "1 child_process"},
		{"in a list of imports", "import json, subprocess as sp, math\nsp.run(x)", "1 child_process,2 child_process"},
		{"os.system", "import os\nos.system('ls')", "2 child_process"},
		{"os by another name", "import os as o; o.execv(a, b)", "1 child_process"},
		{"from os", "from os import (path,\n  fork)", "2 child_process"},
		{"all of os", "from os import *", "1 child_process"},
		{"asyncio", "import asyncio\nawait asyncio.create_subprocess_exec('ls')", "2 child_process"},
		{"a pool of processes", "from concurrent.futures import ProcessPoolExecutor", "1 child_process"},
		{"by importlib", "import importlib\nimportlib.import_module('sub' 'process')", "2 child_process"},
		{"behind a semicolon", "x = 1; import pty", "1 child_process"},
		{"behind a colon", "if x: import pty", "1 child_process"},
		{"over two lines", "import \\\n  pty", "2 child_process"},

		{"requests", "import requests", "1 network_access"},
		{"urllib", "from urllib.request import urlopen", "1 network_access"},
		{"urllib, the other way", "from urllib import request", "1 network_access"},
		{"socket", "import socket", "1 network_access"},
		{"a module below", "import http.client", "1 network_access"},
		{"asyncio's connections", "import asyncio\nr, w = await asyncio.open_connection(h, 1)", "2 network_access"},

		{"open for writing", "open('/tmp/x', 'w'); open('/tmp/y', mode='ab')", "1 fs_write"},
		{"open for reading and writing", "with open(p, 'r+') as f: pass", "1 fs_write"},
		{"a path's open", "Path('x').open('w')", "1 fs_write"},
		{"a path's write", "Path('x').write_text('y')", "1 fs_write"},
		{"os.remove", "import os\nos.remove('x')", "2 fs_write"},
		{"shutil", "import shutil\nshutil.rmtree('x')", "2 fs_write"},

		{"ctypes", "import ctypes", "1 obfuscation"},
		{"a computed module", "import importlib\nimportlib.import_module(n)", "2 obfuscation"},
		{"sys.modules", "import sys\nsys.modules['os'].system('x')", "2 obfuscation"},
		{"text as numbers", `x = "\x65\x76\x61\x6c\x28\x78\x29\x3b\x61\x62"`, "1 obfuscation"},
		{"a string without an end", "x = 'abc\ny = 1", "1 obfuscation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(rulesOf("a.py", tt.src), ","); got != tt.want {
				t.Errorf("%s\ngot  %s\nwant %s", tt.src, got, tt.want)
			}
		})
	}
}

func TestScanFiles(t *testing.T) {
	got := Scan([]Source{
		{Path: "a.js", Text: []byte("x = 1\neval(y)")},
		{Path: "b.py", Text: []byte("\xff")},
		{Path: "c.ts", Text: []byte("a\x00b")},
		{Path: "d.js", Err: errors.New("no")},
		{Path: "e.txt", Text: []byte("eval(x)\xff")},
		{Path: "f.wasm", Text: []byte("\x00asm")},
		{Path: "g.js", Text: []byte("\ufeffeval(y)")},
	}, Manifest{})
	want := []Finding{
		{"a.js", 2, RuleEval, SeverityError, "eval runs text as a program"},
		{"b.py", 0, RuleRead, SeverityError, "the file is no UTF-8 text"},
		{"c.ts", 0, RuleRead, SeverityError, "the file is no UTF-8 text"},
		{"d.js", 0, RuleRead, SeverityError, "the file cannot be read: no"},
		{"f.wasm", 1, RuleObfuscation, SeverityWarning, "compiled code, which cannot be read"},
		{"g.js", 1, RuleEval, SeverityError, "eval runs text as a program"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSeverity: what the manifest permits is a warning, and nothing else is.
func TestSeverity(t *testing.T) {
	src := Source{Path: "a.js", Text: []byte("eval(a)\nrequire('child_process')\nfetch(b)\nfs.writeFile(c)\nrequire(d)")}
	for _, tt := range []struct {
		name           string
		spawn, network bool
		want           []string // rules that are errors
	}{
		{"nothing", false, false, []string{RuleEval, RuleSpawn, RuleNetwork}},
		{"spawn", true, false, []string{RuleEval, RuleNetwork}},
		{"network", false, true, []string{RuleEval, RuleSpawn}},
		{"both", true, true, []string{RuleEval}},
	} {
		m := Manifest{Sandbox: Sandbox{AllowSpawn: tt.spawn}, Permissions: Permissions{NetworkAccess: tt.network, FilesystemAccess: true}}
		var got []string
		all := Scan([]Source{src}, m)
		for _, f := range all {
			if f.Severity == SeverityError {
				got = append(got, f.Rule)
			}
		}
		if !slices.Equal(got, tt.want) || len(all) != 5 {
			t.Errorf("%s: errors %q of %v, want %q", tt.name, got, all, tt.want)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, src := range []string{
		"eval(x)", "`a ${ `b ${c}` }`", "/[/]/.test(x)", "a = {} / b", "'\\", "`${", "f'{x:{y}}'", `f"{f"{x}"}"`, "\"\"\"", "rb'\\'", "from os import (a,\nb", "import", "\\u{", "1..e+", "}}}", "f'{", "f'''{'''",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		began := time.Now()
		for _, file := range []string{"a.js", "b.py"} {
			lines := strings.Count(src, "\n") + 1
			seen := map[Finding]bool{}
			for _, found := range Scan([]Source{{Path: file, Text: []byte(src)}}, Manifest{}) {
				key := Finding{Line: found.Line, Rule: found.Rule}
				if found.Line < 0 || found.Line > lines || found.Message == "" || seen[key] || (found.Line == 0) != (found.Rule == RuleRead) {
					t.Errorf("%+v of %d lines", found, lines)
				}
				seen[key] = true
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%d bytes took %v", len(src), took)
		}
	})
}
