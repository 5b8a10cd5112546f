# The size of each folder in a listing: echo JSON | silk run examples/labs/text/tree.jq -- -r
# Without input it takes an example.
def example: {name: "src", files: [{name: "main.c", size: 310}, {name: "lib", files: [{name: "a.c", size: 90}, {name: "b.c", size: 110}]}]};
def size: if .files then [.files[] | size] | add else .size end;
def folders(above): select(.files) | (above + .name) as $path | "\($path): \(size)", (.files[] | folders($path + "/"));
(. // example) | folders("")
