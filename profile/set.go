package profile

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/nearest"
)

//go:embed builtin/*.yaml
var builtinFiles embed.FS

// builtinNames is the order of `silk profile ls`. The file of lab:python is builtin/lab-python.yaml.
var builtinNames = []string{"lab:text", "lab:python", "lab:node", "lab:repo", "lab:quantum", "lab:evm"}

// Set is the built-in profiles and those of the owner, who may override built-in ones. A nil Set has the built-in ones
// only. Safe for concurrent use.
type Set struct{ owner []Profile }

// NewSet returns a Set with owner's profiles; of two with one name the later counts.
func NewSet(owner ...Profile) *Set { return &Set{owner} }

// Names returns the names of all profiles, the built-in ones first.
func (s *Set) Names() []string {
	names := slices.Clone(builtinNames)
	if s != nil {
		for _, p := range s.owner {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// Lookup returns the profile called name, or an [*UnknownError]. A built-in profile is decoded when it is asked for, so
// that a run pays for one only.
func (s *Set) Lookup(name string) (Profile, error) {
	if s != nil {
		for _, p := range slices.Backward(s.owner) {
			if p.Name == name {
				return p, nil
			}
		}
	}
	if !slices.Contains(builtinNames, name) {
		return Profile{}, &UnknownError{Name: name, Known: s.Names()}
	}
	file := "builtin/" + strings.ReplaceAll(name, ":", "-") + ".yaml"
	data, err := builtinFiles.ReadFile(file)
	if err != nil {
		return Profile{}, fmt.Errorf("read built-in profile %s: %w", name, err)
	}
	return Parse(name, file, data)
}

// UnknownError says that there is no profile with a name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	// People leave the "lab:" out more often than they misspell it.
	near := nearest.To("lab:"+e.Name, e.Known)
	if near == "" || nearest.To(e.Name, e.Known) != "" {
		near = nearest.To(e.Name, e.Known)
	}
	if near != "" {
		return fmt.Sprintf("no profile is called %q; did you mean %s?", e.Name, near)
	}
	return fmt.Sprintf("no profile is called %q; there are %s", e.Name, strings.Join(e.Known, ", "))
}
