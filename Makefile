# Short names for what people do here. The work is in `cargo xtask` and in `skep` itself.

# Where `make up` serves.
LISTEN ?= 127.0.0.1:3000
# How the executable is built; `make up PROFILE=dev` builds faster and runs slower.
PROFILE ?= release
# Where `make install` puts it.
DESTDIR ?=
PREFIX ?= /usr/local

# rustup puts cargo where a shell that was open before does not look.
export PATH := $(PATH):$(HOME)/.cargo/bin

DIRECTORY = $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Cargo builds for a named target, so the executable is in the directory of that name. `make install` may run
# where there is no Rust, as root for instance, and takes what was built.
EXECUTABLE = $(or $(wildcard $(TARGET)/*-linux-gnu/$(DIRECTORY)/skep),$(TARGET)/$(shell rustc -vV | sed -n 's/^host: //p')/$(DIRECTORY)/skep)
# Sandboxes need root; nothing that is compiled does.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: up
up: build ## install, build, and serve on 127.0.0.1:3000 (Ctrl-C ends it)
	@exec $(SUDO) $(EXECUTABLE) up --listen $(LISTEN)

.PHONY: build
build: host ## build the executable, and `skep-bench` beside it
	@scripts/quietly $(TARGET)/build.log skep scripts/build --profile $(PROFILE) >/dev/null

.PHONY: install
install: ## install what `make build` built, below PREFIX (/usr/local)
	@test -x $(EXECUTABLE) || { echo "error: nothing is built yet" >&2; echo "hint: \`make build\` first" >&2; exit 1; }
	@scripts/install-files $(EXECUTABLE) "$(DESTDIR)/" "$(PREFIX)"
	@echo "installed in $(DESTDIR)$(PREFIX); \`skep up\` serves, docs/install.md makes it a service"

.PHONY: dist
dist: PROFILE = dist
dist: build ## make a tarball and a .deb, for machines without Rust, and packages of the SDKs
	@scripts/make-dist $(EXECUTABLE) $(TARGET)/dist

.PHONY: test
test: host-for-tests ## run every check and test, as CI does
	@path=$$(scripts/node-for-tests) && PATH=$$path exec cargo xtask ci

.PHONY: check
check: toolchain ## run the quick checks: format, lints, layers
	@cargo xtask ci --quick

.PHONY: clean
clean: ## remove what was built; templates and sandboxes stay
	@cargo clean

.PHONY: host
host: toolchain
	@scripts/host-packages up

.PHONY: host-for-tests
host-for-tests: toolchain
	@scripts/host-packages up test

.PHONY: toolchain
toolchain:
	@scripts/rust-toolchain
