# The two commands of the README are `make run` and `make test`.
PCAP ?= testdata/sample/sample.pcap
EXPR ?=
WEIR := $(or $(CARGO_TARGET_DIR),target)/release/weir

.PHONY: build ui run test test-long bench install package clean man

# The pages are a part of the program where npm is there to build them; without them it says so.
build:
	@if [ ! -e ui/dist/index.html ] && command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory ui || echo "make: the pages could not be built" >&2; fi
	@cargo build --release --quiet -p weir

# The pages, from ui/ into ui/dist/.
ui:
	@cd ui && npm ci --silent --no-audit --no-fund && npm run --silent build >/dev/null

# A capture file (PCAP=x.pcap), or a link (IF=eth0); EXPR='tcp port 80' for a part of it. The summary of the file, then the
# address of its pages, which are served until Ctrl-C; where nobody can press it (CI=1, or the output goes elsewhere) the
# summary alone. A link is served until Ctrl-C or SIGTERM everywhere.
run: build
ifdef IF
	@$(WEIR) serve -i $(IF) $(EXPR)
else
	@if [ -t 1 ] && [ "$${CI:-}" != 1 ]; then open=open; else open=; fi; $(WEIR) $$open $(PCAP) $(EXPR)
endif

# Every check there is; installs what is missing when it may, else says the command.
test:
	@tests/run

# What takes longer than a gate may: 10^8 filter verdicts against libpcap, an hour of fuzzing.
test-long:
	@tests/run-long

# Weir against its peers on the same packets in the same run; prints ours, theirs and the ratio.
bench:
	@bench/run

# What a package has, in target/dist: the program with everything that can be built in, and its line tables, by which a
# backtrace names files and lines, in weir.debug beside it. In target/dist/packages the Debian package, the archive, and
# what the program and its pages are made of (CycloneDX).
package: ui
	@cargo build --profile dist --quiet -p weir --features parquet
	@cd $(or $(CARGO_TARGET_DIR),target)/dist && objcopy --only-keep-debug weir weir.debug && \
		objcopy --strip-debug --add-gnu-debuglink=weir.debug weir && ls -l weir weir.debug
	@dist=$(or $(CARGO_TARGET_DIR),target)/dist && packaging/sbom $$dist/packages && \
		packaging/build $$dist/weir $$dist/packages && cd $$dist/packages && ls -l *.deb *.tar.gz *.cdx.json SHA256SUMS

# The manual pages and the shell completions, from the same definitions as --help and the parsers.
man: build
	@mkdir -p target/man && $(WEIR) man > target/man/weir.1 && $(WEIR) man fields > target/man/weir-fields.7 \
		&& $(WEIR) man functions > target/man/weir-functions.7
	@for shell in bash zsh fish; do $(WEIR) completion $$shell > target/man/weir.$$shell; done

clean:
	@cargo clean
