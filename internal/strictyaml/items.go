package strictyaml

import "github.com/goccy/go-yaml/ast"

// Items reads a list and calls for each entry, in the file's order. An absent list calls nothing.
func (d *Decoder) Items(n Node, what string, item func(Node)) {
	if n.Absent() {
		return
	}
	list, ok := n.n.(*ast.SequenceNode)
	if !ok {
		d.Fail(n, "%s must be a list, not %s", what, describe(n))
		return
	}
	for _, v := range list.Values {
		item(Node{v})
	}
}
