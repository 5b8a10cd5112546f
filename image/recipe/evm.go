package recipe

// evm is contracts: a compiler for Solidity, an Ethereum machine in JavaScript with a chain of our own around it
// (silk-chain), and ethers, which has older versions of two packages for itself.
func evm() Recipe {
	npm := []NPM{
		{Name: "solc", Version: "0.8.37"}, // and what it needs:
		{Name: "command-exists", Version: "1.2.9"},
		{Name: "commander", Version: "8.3.0"},
		{Name: "follow-redirects", Version: "1.16.3"},
		{Name: "js-sha3", Version: "0.8.0"},
		{Name: "memorystream", Version: "0.3.1"},
		{Name: "semver", Version: "5.7.3"},
		{Name: "tmp", Version: "0.2.6"},

		{Name: "ethers", Version: "6.17.0"}, // and what it needs:
		{Name: "@adraffy/ens-normalize", Version: "1.11.1"},
		{Name: "aes-js", Version: "4.0.0-beta.5"},
		{Name: "tslib", Version: "2.7.0"},
		{Name: "ws", Version: "8.21.0"},
		{Name: "@noble/curves", Version: "1.2.0", In: "ethers"},
		{Name: "@noble/hashes", Version: "1.3.2", In: "ethers"},

		// What the packages of @ethereumjs need:
		{Name: "@js-sdsl/ordered-map", Version: "4.4.2"},
		{Name: "@noble/curves", Version: "2.4.0"},
		{Name: "@noble/hashes", Version: "2.4.0"},
		{Name: "debug", Version: "4.4.3"},
		{Name: "eventemitter3", Version: "5.0.4"},
		{Name: "lru-cache", Version: "11.0.2"},
		{Name: "ms", Version: "2.1.3"},
	}
	for _, name := range []string{"binarytree", "block", "common", "evm", "mpt", "rlp", "statemanager", "tx", "util", "vm"} {
		npm = append(npm, NPM{Name: "@ethereumjs/" + name, Version: "10.1.3"})
	}
	files := []File{embedded("usr/lib/silk/evm.mjs", "evm/evm.mjs")}
	for _, name := range []string{"chain.js", "compile.js", "index.js", "package.json", "reason.js", "rpc.js", "state.js", "trace.js"} {
		files = append(files, embedded("usr/share/nodejs/silk-chain/"+name, "evm/silk-chain/"+name))
	}
	return Recipe{
		Name:     "lab:evm",
		Summary:  "Solidity, a chain inside the sandbox, ethers",
		Packages: with(base, "ca-certificates", "jq", "nodejs"),
		Omit:     with(unused, "dpkg", "openssl"),
		NPM:      byName(npm),
		Files:    files,
		Links:    []Link{importable},
	}
}
