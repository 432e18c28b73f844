//! The system calls that a process may make after its rings are open (seccomp(2)). All others fail with EPERM.
//!
//! Not allowed in a run: making, binding or connecting sockets; passing descriptors; executing programs; making, tracing or
//! signalling processes; changing users, groups, mounts, namespaces or keys.

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};
use std::collections::BTreeMap;

/// The kind of process to confine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// The process that reads and analyses packets.
    Run,
    /// The process that holds the sockets of rings.
    RingHelper,
    /// A process that sends events.
    Sender,
    /// The thread of a run that maps the rings on interfaces that return.
    Mapper,
}

/// Refuses all calls but those of a part, for this thread and its later children.
///
/// # Errors
/// The kernel has no filters of system calls, or none for this processor.
pub fn refuse_others(part: Part) -> Result<(), String> {
    let failed = |error: seccompiler::Error| error.to_string();
    let wrong = |error: seccompiler::BackendError| error.to_string();
    let arch: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|_| "not supported on this processor".to_owned())?;
    let filter = |rules, others, listed| -> Result<_, String> {
        let filter = SeccompFilter::new(rules, others, listed, arch).map_err(wrong)?;
        seccompiler::BpfProgram::try_from(filter).map_err(wrong)
    };
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let allowed = filter(rules(part).map_err(wrong)?, refused, SeccompAction::Allow)?;
    // The flags of clone3 are in memory, where a filter cannot read them. Without clone3, the C library calls clone.
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = filter(clone3, SeccompAction::Allow, absent)?;
    apply_filter(&clone3).and_then(|()| apply_filter(&allowed)).map_err(failed)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(part: Part) -> Result<Rules, seccompiler::BackendError> {
    let common = if part == Part::Mapper { MAPPER } else { ALL };
    let mut rules: Rules = common.iter().map(|call| (*call, Vec::new())).collect();
    // The other filter decides: of two refusals, the one of the filter that was installed last has effect.
    rules.insert(libc::SYS_clone3, Vec::new());
    match part {
        Part::Run => {
            rules.extend(RUN.iter().chain(LEGACY).map(|call| (*call, Vec::new())));
            rules.insert(libc::SYS_clone, threads_only()?);
            // The interface and program of a ring cannot be changed.
            let packet = libc::SOL_PACKET as u64;
            rules.insert(libc::SYS_setsockopt, vec![rule(&[(1, SeccompCmpOp::Ne, packet)])?]);
            // A thread may restrict itself further.
            let more =
                [(0, SeccompCmpOp::Eq, u64::from(libc::SECCOMP_SET_MODE_FILTER)), (1, SeccompCmpOp::Eq, 0)];
            rules.insert(libc::SYS_seccomp, vec![rule(&more)?]);
        }
        Part::RingHelper => {
            rules.extend(RING_HELPER.iter().map(|call| (*call, Vec::new())));
            // Besides those of rings, the families that the C library uses to look up an interface by name.
            rules.insert(libc::SYS_socket, families(&[libc::AF_PACKET, libc::AF_UNIX, libc::AF_NETLINK])?);
        }
        Part::Sender => {
            rules.extend(SENDER.iter().chain(LEGACY_OF_SENDER).map(|call| (*call, Vec::new())));
            rules.insert(libc::SYS_clone, threads_only()?);
            // The last is for the C library, which asks the kernel whether the host has addresses of IPv6.
            rules.insert(libc::SYS_socket, families(&[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?);
        }
        Part::Mapper => {}
    }
    if part != Part::Mapper {
        allow_by_arguments(&mut rules)?;
    }
    // Memory is never writable and executable at once.
    let either =
        [libc::PROT_WRITE, libc::PROT_EXEC].map(|access| (2, SeccompCmpOp::MaskedEq(access as u64), 0));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(
            call,
            either.iter().map(|one| rule(std::slice::from_ref(one))).collect::<Result<_, _>>()?,
        );
    }
    Ok(rules)
}

/// A new thread may share this process, and no new process may be made.
fn threads_only() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let thread = libc::CLONE_THREAD as u64;
    Ok(vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), thread)])?])
}

/// A socket may have one of these families.
fn families(families: &[libc::c_int]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    families.iter().map(|family| rule(&[(0, SeccompCmpOp::Eq, *family as u64)])).collect()
}

/// Calls of every process that are allowed for some arguments.
fn allow_by_arguments(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    // Both take 32 bits of their second argument. TIOCSTI inserts input into the terminal, and thereby into its shell.
    let typing = [TIOCSTI, TIOCLINUX];
    rules.insert(libc::SYS_ioctl, vec![rule(&typing.map(|request| (1, SeccompCmpOp::Ne, request)))?]);
    let names = [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA, libc::PR_SET_NO_NEW_PRIVS];
    let names = names.map(|option| (0, SeccompCmpOp::Eq, option as u64));
    let names = names.iter().map(|one| rule(std::slice::from_ref(one))).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_prctl, names);
    Ok(())
}

/// Requests of ioctl_tty(2). Their type in `libc` depends on the C library.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// Names a range of memory (prctl(2)).
const PR_SET_VMA: libc::c_int = 0x5356_4d41;

/// A rule with conditions that must all hold, each for the lower 32 bits of an argument.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter().map(|(argument, is, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, is.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Calls of every process: memory, signals to itself, exit.
static ALL: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_fcntl,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
];

/// Calls to make packet sockets with rings, to look up an interface by name, to wait for blocks and requests, and to pass
/// the sockets for their mapping.
static RING_HELPER: &[i64] = &[
    libc::SYS_setsockopt,
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_sendmsg,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];

/// Calls to look up a name, which loads modules of the C library and may take a thread, to connect, and to send and receive.
static SENDER: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_gettimeofday,
    libc::SYS_clock_getres,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_ppoll,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_shutdown,
];

/// Those that later architectures have under other names only.
#[cfg(target_arch = "x86_64")]
static LEGACY_OF_SENDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
static LEGACY_OF_SENDER: &[i64] = &[];

/// Calls of the thread that maps rings. None of them writes to a descriptor, duplicates it or passes it on.
static MAPPER: &[i64] = &[
    libc::SYS_recvmsg,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls of a run: files, threads, time, accepted connections, the terminal.
static RUN: &[i64] = &[
    // Files.
    libc::SYS_openat,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_utimensat,
    libc::SYS_umask,
    // Memory and threads.
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Identity of the process and the system.
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_gettimeofday,
    libc::SYS_clock_getres,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Waiting and connections.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
];

/// Calls that later architectures have under other names only.
#[cfg(target_arch = "x86_64")]
static LEGACY: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_utimes,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_time,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
static LEGACY: &[i64] = &[];
