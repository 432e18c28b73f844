# The two commands of the README are `make run` and `make test`.
PCAP ?= testdata/sample/sample.pcap
EXPR ?=
WEIR := $(or $(CARGO_TARGET_DIR),target)/release/weir

.PHONY: build run test test-long bench install clean man

build:
	@cargo build --release --quiet -p weir

# A capture file (PCAP=x.pcap), or a link until Ctrl-C (IF=eth0); EXPR='tcp port 80' for a part of it.
run: build
ifdef IF
	@$(WEIR) -i $(IF) $(EXPR)
else
	@$(WEIR) $(PCAP) $(EXPR)
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

# The manual page and the shell completions, from the same definitions as --help.
man: build
	@mkdir -p target/man && $(WEIR) man > target/man/weir.1
	@for shell in bash zsh fish; do $(WEIR) completion $$shell > target/man/weir.$$shell; done

clean:
	@cargo clean
