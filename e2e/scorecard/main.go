// Command scorecard-files runs OpenSSF Scorecard on a folder, with those of its checks that read only files, and prints
// its result as JSON: `scorecard-files FOLDER CHECK…`.
//
// The command `scorecard --local` does the same, but asks OSS-Fuzz over the network whether it fuzzes the project. Here
// the answer is no: what is in the folder has to be enough.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ossf/scorecard/v5/clients"
	"github.com/ossf/scorecard/v5/clients/localdir"
	docs "github.com/ossf/scorecard/v5/docs/checks"
	sclog "github.com/ossf/scorecard/v5/log"
	"github.com/ossf/scorecard/v5/pkg/scorecard"
)

// noOSSFuzz knows no project. Checks of files call nothing else of this client.
type noOSSFuzz struct{ clients.RepoClient }

func (noOSSFuzz) Search(clients.SearchRequest) (clients.SearchResponse, error) {
	return clients.SearchResponse{}, nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: scorecard-files FOLDER CHECK…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string, checks []string) error {
	repo, err := localdir.MakeLocalDirRepo(folder)
	if err != nil {
		return err
	}
	result, err := scorecard.Run(context.Background(), repo,
		scorecard.WithChecks(checks), scorecard.WithOSSFuzzClient(noOSSFuzz{}), scorecard.WithLogLevel(sclog.WarnLevel))
	if err != nil {
		return err
	}
	known, err := docs.Read()
	if err != nil {
		return err
	}
	options := &scorecard.AsJSON2ResultOption{Details: true, Annotations: true, LogLevel: sclog.WarnLevel}
	return result.AsJSON2(os.Stdout, known, options)
}
