# Builds, tests and installs. `make help` lists what there is.
#
# Cargo does the work; this file knows what cargo does not: the guest beside the workspace, what a machine must
# have (scripts/need), and where things are installed.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
# Without root: make install PREFIX=~/jobglass SYSCONFDIR=~/jobglass/etc
SYSCONFDIR ?= /etc
DESTDIR ?=
FUZZ ?= 30s

version := 0.1.0
bin := target/release/jobglass
server := target/release/jobglass-server
lib := target/release/libjobglass.so
# Built by those only who measure.
load := cargo run --release --locked --quiet --package jobglass-load --
guest := --manifest-path crates/preload/Cargo.toml --target-dir target/guest
# Tests and benchmarks run what is shipped, not what a debug build would be.
shipped := JOBGLASS_BIN=$(CURDIR)/$(bin) JOBGLASS_LIB=$(CURDIR)/$(lib)

.PHONY: help build demo test lint lint-rust lint-shell lint-waits lint-licences bench collection tags load answers series running testbed fuzz install uninstall clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "make demo needs a Rust tool chain and a C compiler; make test needs root as well."

build: ## build jobglass, jobglass-server and libjobglass.so in target/release
	scripts/need build
	scripts/duckdb
	cargo build --release --locked
	cargo build --release --locked $(guest)
	@# A library that did not change keeps its time stamp, and programs that have it mapped keep it.
	cmp -s target/guest/release/libjobglass.so $(lib) || install -m755 target/guest/release/libjobglass.so $(lib)

demo: build ## see it at work: a server, an agent, a few programs, and what is known of them
	@scripts/need demo
	@scripts/demo

test: build ## run all tests, also those with the kernel and with Slurm (root)
	scripts/need test
	$(shipped) scripts/test --locked

lint: lint-waits lint-rust lint-shell lint-licences ## check formatting, Rust and shell lints, how tests wait, licences

lint-rust:
	scripts/need lint
	scripts/duckdb
	cargo fmt --all --check
	cargo fmt --check --manifest-path crates/preload/Cargo.toml
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir target
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --release --locked $(guest) -- -D warnings

lint-shell:
	scripts/need lint
	find .ci bench packaging scripts testbed tests -type f -exec awk 'FNR == 1 && \
	    (/^#!.*[\/ ](ba)?sh( |$$)/ || FILENAME ~ /\.bash$$/) { print FILENAME } { nextfile }' {} + | \
	    xargs -r shellcheck --external-sources

lint-waits:
	scripts/lint-waits

# Advisories are not checked: they would have to be fetched.
lint-licences:
	@if cargo deny --version >/dev/null 2>&1; then \
	    cargo deny check licenses bans sources; \
	else \
	    echo "lint: SKIPPED licences and sources of dependencies: cargo-deny is not installed" \
	        "(cargo install --locked cargo-deny)"; \
	fi

bench: build ## measure what the guest and the agent cost, and imports and lists of jobs beside bare DuckDB
	scripts/need bench
	$(shipped) bench/run
	bench/sample
	$(load) collection
	$(load) tags

collection: build ## only the last of these: a million lines of sacct, ten million jobs
	scripts/need bench
	$(load) collection

tags: build ## only tags: all rules over ten million jobs, lists filtered by tags, beside bare DuckDB
	scripts/need bench
	$(load) tags

load: build ## measure what the server bears: 3,000 agents, beside DuckDB's appender
	$(load) ingest

answers: build ## measure how fast the server answers: 50 million records, beside bare DuckDB
	$(load) answers

series: build ## measure what a reading takes on disk: as it came, put into order, coarse, beside Parquet
	$(load) series

running: build ## measure what the rows of 3,000 jobs that run cost, beside their readings
	$(load) running

testbed: ## start a Slurm cluster of four nodes on this machine
	testbed/cluster install
	testbed/cluster start
	@echo
	@echo "A job:      testbed/cluster as jgalice -- sbatch --wrap 'srun hostname'"
	@echo "This shell: eval \"\$$(testbed/cluster env)\"; sinfo"
	@echo "The end:    testbed/cluster stop"

fuzz: ## feed each parser with hostile bytes for FUZZ=30s or FUZZ=1000000 inputs (nightly compiler, cargo-fuzz)
	scripts/fuzz $(FUZZ)

# Only what is missing is built: `make build` as yourself, `make install` as root, who may have no cargo.
$(bin) $(server) $(lib) &:
	$(MAKE) build

libdir := $(PREFIX)/lib/jobglass
share := $(DESTDIR)$(PREFIX)/share
units := $(DESTDIR)$(PREFIX)/lib/systemd/system
modules := $(share)/jobglass/modulefiles
sysctl := $(DESTDIR)$(SYSCONFDIR)/sysctl.d/10-jobglass.conf
config := $(DESTDIR)$(SYSCONFDIR)/jobglass/agent.toml
fill := sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(libdir)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g'

install: $(bin) $(server) $(lib) ## install below PREFIX=/usr/local and SYSCONFDIR=/etc (DESTDIR= for packages)
	rm -rf target/generated
	$(bin) generate target/generated
	$(server) generate target/generated
	install -D -m755 $(bin) $(DESTDIR)$(PREFIX)/bin/jobglass
	install -D -m755 $(server) $(DESTDIR)$(PREFIX)/bin/jobglass-server
	install -D -m755 $(lib) $(DESTDIR)$(libdir)/libjobglass.so
	install -D -m644 target/duckdb/libduckdb.so $(DESTDIR)$(libdir)/libduckdb.so
	install -D -m644 -t $(share)/man/man1 target/generated/man/man1/*.1
	for name in jobglass jobglass-server; do \
	    install -D -m644 target/generated/completions/$$name.bash $(share)/bash-completion/completions/$$name && \
	    install -D -m644 target/generated/completions/_$$name $(share)/zsh/site-functions/_$$name && \
	    install -D -m644 target/generated/completions/$$name.fish $(share)/fish/vendor_completions.d/$$name.fish || exit; \
	done
	install -d $(units) $(modules)/lmod/jobglass $(modules)/tcl/jobglass
	$(fill) packaging/jobglass-agent.service >$(units)/jobglass-agent.service
	$(fill) packaging/jobglass-server.service >$(units)/jobglass-server.service
	$(fill) packaging/jobglass-import-slurm.service >$(units)/jobglass-import-slurm.service
	$(fill) packaging/modulefiles/jobglass/lmod/$(version).lua >$(modules)/lmod/jobglass/$(version).lua
	install -D -m755 packaging/slurmctld-prolog $(share)/jobglass/slurmctld-prolog
	install -D -m644 crates/digest/site.toml $(share)/jobglass/site.toml
	$(fill) packaging/modulefiles/jobglass/tcl/$(version) >$(modules)/tcl/jobglass/$(version)
	@# What an administrator may have changed is left alone.
	test -e $(sysctl) || install -D -m644 packaging/jobglass.sysctl.conf $(sysctl)
	test -e $(config) || install -D -m644 packaging/agent.toml $(config)

uninstall: ## remove what install put there, but no configuration that was changed, and no spool
	rm -f $(DESTDIR)$(PREFIX)/bin/jobglass $(DESTDIR)$(PREFIX)/bin/jobglass-server
	rm -f $(units)/jobglass-agent.service $(units)/jobglass-server.service $(units)/jobglass-import-slurm.service
	rm -f $(share)/man/man1/jobglass.1 $(share)/man/man1/jobglass-*.1
	for name in jobglass jobglass-server; do \
	    rm -f $(share)/bash-completion/completions/$$name $(share)/zsh/site-functions/_$$name \
	        $(share)/fish/vendor_completions.d/$$name.fish; \
	done
	rm -rf $(DESTDIR)$(libdir) $(share)/jobglass
	! cmp -s packaging/jobglass.sysctl.conf $(sysctl) || rm -f $(sysctl)
	! cmp -s packaging/agent.toml $(config) || rm -f $(config)
	rmdir $(DESTDIR)$(SYSCONFDIR)/jobglass 2>/dev/null || true

clean: ## remove everything that was built
	cargo clean
	rm -rf fuzz/target
