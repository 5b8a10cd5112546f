package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash names the plan: SHA-256 of its JSON in lower-case hex. Equal plans have equal hashes; whatever changes what is run
// or what is granted changes it. The contents of Dir, Files and Mounts are not part of it, only their names; code is, by
// its own hash.
func (p Plan) Hash() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("marshal plan: %v", err)) // a Plan has only plain values; NaN is refused by Decide
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
