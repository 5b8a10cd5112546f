package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/recipe"
	"github.com/silk-sandbox/silk/internal/nearest"
)

// buildFlags are the flags of `silk image build` as written.
type buildFlags struct {
	file, mirror, registry string
	vmlinux                string
	frozen, noCompile      bool
}

func (a *app) imageBuildCommand() *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use: "build NAME...|-f FILE", Short: "Build lab images from locked packages, or an image that a file describes",
		Long: `Build lab images (lab:text, lab:python, ...: silk profile ls) from Debian and npm packages whose versions and hashes are
locked in silk: the same bytes everywhere. Downloads are verified, kept, and resumed; with all of them kept no network is
needed. With -f, build the image that a YAML file describes:

  schema: silk.imagefile/v1
  name: my:image
  from: lab:python
  packages: [graphviz]                   # Debian packages; the lock is kept beside the file
  wheels: [./dist/x-1.0-py3-none-any.whl]
  npm: [./x-1.0.0.tgz]
  files: [{src: ./model.bin, dst: /opt/model.bin}]

kernel is what virtual machines boot: Debian's kernel for clouds, or, with --vmlinux, one of your own.`,
		Example: `  silk image build lab:text lab:python
  silk image build lab:node --mirror http://deb.example.org/debian
  silk image build -f my-image.yaml
  silk image build --vmlinux bin/kernel/vmlinux kernel`,
		ValidArgsFunction: completeLabs,
		RunE:              func(_ *cobra.Command, args []string) error { return a.imageBuild(f, args) },
	}
	c.Flags().StringVar(&f.mirror, "mirror", "", "`URL` of a Debian archive (default $SILK_MIRROR, the configuration, else the host's apt)")
	c.Flags().StringVar(&f.registry, "npm-registry", "", "`URL` of an npm registry (default $SILK_NPM_REGISTRY, the configuration, else npm's)")
	c.Flags().StringVarP(&f.file, "file", "f", "", "image `FILE`")
	c.Flags().StringVar(&f.vmlinux, "vmlinux", "", "`FILE` with a kernel for virtual machines, kept under the one NAME")
	c.Flags().BoolVar(&f.frozen, "frozen", false, "fail if a locked version has left the archive, instead of resolving it again")
	c.Flags().BoolVar(&f.noCompile, "no-compile", false, "leave Python files and Go's library uncompiled; both then start slower in this image")
	return a.jsonFlag(c)
}

func (a *app) imageBuild(f buildFlags, names []string) error {
	if (f.file == "") == (len(names) == 0) {
		return usagef("name images to build, such as lab:python, or one file with -f; not both")
	}
	if f.vmlinux != "" {
		return a.imageKernel(f, names)
	}
	var recipes []recipe.Recipe
	for _, name := range names {
		r, err := labRecipe(name)
		if err != nil {
			return err
		}
		recipes = append(recipes, r)
	}
	h, err := a.makeImages()
	if err != nil {
		return err
	}
	build := a.recipeConfig(h, f)
	if !f.noCompile {
		tools, err := a.drivers(driverConfig{Home: h.home, Sentry: a.env("SILK_SENTRY")})
		if err != nil {
			return err
		}
		if tools.Close != nil {
			defer tools.Close() // nothing of the image hangs on it
		}
		if len(tools.Drivers) > 0 {
			build.Compile = compileIn(tools.Drivers[0])
		} else {
			a.errorf("Python files and Go's library in the image stay uncompiled: %v", tools.WhyNone)
		}
	}
	if f.file != "" {
		img, err := a.buildOne(&build, func(ctx context.Context) (image.Image, error) { return recipe.BuildFile(ctx, f.file, build) })
		if err != nil {
			return fmt.Errorf("build %s: %w", f.file, err)
		}
		if img.Tags, err = h.images.tags(img); err != nil {
			return err
		}
		return a.printImage(img, strings.Join(img.Tags, ","))
	}
	answers := []imageAnswer{}
	for _, r := range recipes {
		lock, err := recipe.Committed(r.Name)
		if err != nil {
			return err
		}
		img, err := a.buildOne(&build, func(ctx context.Context) (image.Image, error) { return recipe.Build(ctx, r, lock, build) })
		if err != nil {
			return fmt.Errorf("build %s: %w", r.Name, err)
		}
		if a.json {
			answer := answerFor(img)
			answer.Tags = []string{r.Name}
			answers = append(answers, answer)
			continue
		}
		if err := a.printImage(img, r.Name); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(answers)
	}
	return nil
}

// imageKernel keeps a kernel that was made elsewhere.
func (a *app) imageKernel(f buildFlags, names []string) error {
	if len(names) != 1 || isLab(names[0]) && names[0] != image.KernelTag {
		return usagef("--vmlinux makes one image, of a kernel: name it %s, which virtual machines boot, or as you like", image.KernelTag)
	}
	path, _, err := locate(f.vmlinux)
	if err != nil {
		return err
	}
	h, err := a.makeImages()
	if err != nil {
		return err
	}
	img, err := recipe.KernelOf(a.ctx, path, names[0], a.recipeConfig(h, f))
	if err != nil {
		return err
	}
	return a.printImage(img, names[0])
}

// buildOne shows the progress of one build.
func (a *app) buildOne(config *recipe.Config, build func(context.Context) (image.Image, error)) (image.Image, error) {
	report, done := a.progress()
	defer done()
	config.Progress = report
	config.Notice = func(sentence string) {
		done()
		a.errorf("%s", sentence)
	}
	return build(a.ctx)
}

func (a *app) recipeConfig(h *host, f buildFlags) recipe.Config {
	config := recipe.Config{
		Store:       h.images.Store,
		Cache:       filepath.Join(h.home, "cache"),
		Mirror:      or(f.mirror, or(a.env("SILK_MIRROR"), h.config.mirror)),
		NPMRegistry: or(f.registry, or(a.env("SILK_NPM_REGISTRY"), h.config.npmRegistry)),
		Frozen:      f.frozen,
		Proxy:       http.ProxyFromEnvironment,
	}
	if dir := a.env("HOME"); dir != "" {
		config.NPMConfig = append(config.NPMConfig, filepath.Join(dir, ".npmrc"))
	}
	config.NPMConfig = append(config.NPMConfig, "/etc/npmrc", "/usr/local/etc/npmrc", "/usr/etc/npmrc")
	return config
}

func labRecipe(name string) (recipe.Recipe, error) {
	if r, ok := recipe.ByName(name); ok {
		return r, nil
	}
	var names []string
	for _, r := range recipe.Recipes() {
		names = append(names, r.Name)
	}
	near := nearest.To(name, names)
	if near == "" {
		near = nearest.To("lab:"+name, names)
	}
	if near != "" {
		return recipe.Recipe{}, usagef("there is no recipe %q; did you mean %s?", name, near)
	}
	return recipe.Recipe{}, usagef("there is no recipe %q; there are %s", name, strings.Join(names, ", "))
}

func completeLabs(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, r := range recipe.Recipes() {
		names = append(names, r.Name+"\t"+r.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
