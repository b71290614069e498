// Package lines has the loop of the oracles: a question on each line of standard input, and a line of output for each; and
// the version of the code that answers.
package lines

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime/debug"
)

// Version returns the version of a module of which this program is built.
func Version(module string) string {
	built, _ := debug.ReadBuildInfo()
	for _, each := range built.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	panic("no such module: " + module)
}

// Answer decodes each line as JSON and writes what `answer` returns for it, or nothing if that is nil.
func Answer[Question any](answer func(Question) any) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var question Question
		if err := json.Unmarshal(in.Bytes(), &question); err != nil {
			panic(err)
		}
		answered := answer(question)
		if answered == nil {
			continue
		}
		if err := encoder.Encode(answered); err != nil {
			panic(err)
		}
	}
}
