package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
)

// Run a program on a server and show what it prints as it prints it.
func Example() {
	ctx := context.Background()
	token, err := client.ParseToken(os.Getenv("SILK_TOKEN"))
	if err != nil {
		fmt.Println(err)
		return
	}
	silk, err := client.New(client.Config{URL: "https://lab.example:7455", Token: token})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer silk.Close()

	code := "print(6*7)"
	run, err := silk.Submit(ctx, api.RunRequest{Language: "python", Code: &code}, "")
	var refused *api.Problem
	if errors.As(err, &refused) {
		fmt.Println("refused:", refused.Rule, refused.Detail)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for frame, err := range silk.Watch(run.ID, client.Cursor{}).Frames(ctx) {
		if err != nil {
			fmt.Println(err) // how the run ended is not known
			return
		}
		switch frame.Type {
		case api.FrameOutput:
			data, _ := frame.Bytes()
			os.Stdout.Write(data)
		case api.FrameGap:
			fmt.Printf("[bytes %d to %d are lost]\n", *frame.From, *frame.To)
		case api.FrameExit:
			fmt.Println(frame.Outcome.Kind)
		}
	}
}

// Approve what waits, but for what asks for the network.
func ExampleClient_Approvals() {
	ctx := context.Background()
	silk, err := client.New(client.Config{URL: "unix:///var/lib/silk/silk.sock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for waiting, err := range silk.Approvals(ctx, "pending") {
		if err != nil {
			fmt.Println(err)
			return
		}
		yes := waiting.Rule != "network"
		if _, err := silk.Decide(ctx, waiting.Run, api.DecisionRequest{Grant: yes, Hash: waiting.Hash}); err != nil {
			fmt.Println(err)
		}
	}
}

// The last runs that broke a rule.
func ExampleClient_Runs() {
	silk, err := client.New(client.Config{URL: "unix:///var/lib/silk/silk.sock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	shown := 0
	for run, err := range silk.Runs(context.Background(), client.RunFilter{Outcome: "violated"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.ID, run.Outcome.Rule)
		if shown++; shown == 10 {
			break
		}
	}
}

// A token does not print itself.
func ExampleParseToken() {
	token, err := client.ParseToken("silk_1234\n")
	fmt.Println(token, err)
	// Output: (secret) <nil>
}
