//! The pages and the HTTP interface: `weir open` and `weir serve`.
//!
//! The server has one thread for all connections; blocking work (the store, captures, passwords) runs on other threads.
//! It reads the state in the [`crate::hub`], and never delays the run.

mod access;
mod access_log;
mod answers;
mod app;
mod attempts;
mod body;
mod counts;
mod failure;
mod live;
mod owner;
mod packet_source;
mod pages;
mod rights;
mod routes;
mod rows;
mod security;
mod server;
mod shares;
mod tls;

use crate::cli;
use crate::configuration::Configuration;
use crate::database;
use crate::exit::{Exit, complain};
use crate::hub::{About, Hub, clock};
use crate::privileges::{self, Account, Paths};
use crate::run::{Request, Run, by_record};
use crate::signals::Signals;
use crate::web_service::{Begin, Changes, WebService};
use access::Access;
use access_log::{AccessLog, LogFile};
use answers::Answers;
use app::App;
use axum::extract::DefaultBodyLimit;
use axum::{Router, middleware};
use counts::Counts;
use packet_source::{Captures, ExpressionOptions, PacketSource};
use shares::Shares;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;
use weir_api::web::Mode;
use weir_capture::{Input, ReadOptions};
use weir_engine::ChecksumMode;
use weir_files::TemporaryFolder;
use weir_store::{Marks, Signatures, Store};

/// Maximum size of a request's body in bytes.
const MAX_BODY: usize = 1 << 20;
/// Number of ports that `weir open` tries.
const PORTS: u16 = 100;
/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(50);
/// Grace time for open answers when the program ends.
const LEAVE: Duration = Duration::from_millis(300);

/// `weir open`.
pub fn open(options: cli::Open) -> Exit {
    attempt_open(options).unwrap_or_else(|(exit, error)| complain(exit, error))
}

/// `weir serve`.
pub fn serve(options: cli::Serve) -> Exit {
    attempt_serve(options).unwrap_or_else(|(exit, error)| complain(exit, error))
}

fn attempt_open(options: cli::Open) -> Result<Exit, (Exit, String)> {
    let mut request = Request::new(&options.run)?;
    request.pages = true;
    let is_short = request.shorten(&options.run);
    if request.inputs.is_empty() {
        let text = "nothing to open: give a capture, as in `weir open x.pcap`; for a live capture use `weir serve -i INTERFACE`";
        return Err((Exit::Usage, text.to_owned()));
    }
    let runtime = runtime()?;
    by_record::resolve(&options.run, &mut request)?;
    // The port is bound first, so that a conflict is reported before a long analysis.
    let bound = match options.no_wait {
        true => None,
        false => Some(runtime.block_on(async { free(options.pages.port) })?),
    };
    let mut access = Access::read(None, None).map_err(|error| (Exit::Usage, error))?;
    if let Some((_, port)) = bound {
        access.only_loopback(port);
    }
    let configuration = configuration(&options.run, &options.pages, &request, is_short)?;
    let about = about(&options.run, &request, Mode::File);
    let hub = Arc::new(Hub::new(about, request.shown_expression()));
    let mut packets = source(&options.run, &request);
    let named = options.pages.store.clone();
    let folder = Folder::of(options.pages.store, options.run.user.as_deref(), false)?;
    let (store, temporary) = (folder.path().to_owned(), folder.is_temporary());
    let beside = WebService {
        hub: Arc::clone(&hub),
        store,
        temporary,
        log: None,
        changes: Changes::Never,
        configuration: Arc::clone(&configuration),
        begin: Mutex::default(),
    };
    let expression_options = expression_options(&options.run);
    let run = Run::new(options.run, request, Some(beside))?;
    if run.is_anonymised() {
        packets = None;
    }
    // The pages of the first packets stay when these were read.
    let interrupted = run.interrupted();
    let exit = run.execute();
    if interrupted.load(Ordering::Relaxed) || exit == Exit::Unreadable {
        return Ok(exit);
    }
    let Some((listeners, port)) = bound else { return Ok(exit) };
    let answers = Answers::new(hub.answers());
    let store = stored(folder.path(), &hub, &answers)?;
    // The terminal belongs to the user who downloads: only a store that is kept has an access log.
    let doors = Doors { access, has_tls: false, log: None, folder: named, echo: false };
    let app = app(hub, Some(store), answers, doors, configuration, packets, expression_options);
    let address = address(false, &listeners, port);
    serve_until(runtime, &interrupted, app, listeners, None, &address);
    Ok(exit)
}

fn attempt_serve(options: cli::Serve) -> Result<Exit, (Exit, String)> {
    if let Some(name) = &options.hash_password {
        return hash_password(name);
    }
    let mut request = Request::new(&options.run)?;
    request.pages = true;
    if !request.inputs.is_empty() {
        let text = "serve captures from interfaces; for a capture file use `weir open x.pcap`";
        return Err((Exit::Usage, text.to_owned()));
    }
    let usage = |error: String| (Exit::Usage, error);
    let from = &request.server;
    let tokens = options.token_file.as_deref().or(from.tokens.value.as_deref());
    let users = options.user_file.as_deref().or(from.users.value.as_deref());
    let mut access = Access::read(tokens, users).map_err(usage)?;
    let listen = options.listen.or(from.listen.value);
    let certificate = options.tls_cert.as_deref().or(from.tls_cert.value.as_deref());
    let key = options.tls_key.as_deref().or(from.tls_key.value.as_deref());
    let tls = match certificate.zip(key) {
        Some((certificate, key)) => Some(tls::acceptor(certificate, key).map_err(usage)?),
        None => None,
    };
    if let Some(address) = listen.filter(|address| !address.is_loopback()) {
        let missing = match (tls.is_some(), access.is_guarded()) {
            (true, true) => None,
            (false, true) => Some("TLS: --tls-cert and --tls-key"),
            (true, false) => Some("users or tokens: --user-file or --token-file"),
            (false, false) => {
                Some("TLS (--tls-cert and --tls-key) and users or tokens (--user-file or --token-file)")
            }
        };
        if let Some(missing) = missing {
            let text = format!("listening on {address} needs {missing}; loopback needs neither");
            return Err((Exit::Usage, text));
        }
    }
    let port = options.pages.port.or(from.port.value).unwrap_or(cli::PORT);
    if listen.is_none_or(|address| address.is_loopback()) {
        access.only_loopback(port);
    }
    let log = options.access_log.as_deref().or(from.access_log.value.as_deref());
    let log_path = log.map(Path::to_owned);
    let log = log.map(LogFile::open).transpose().map_err(|error| (Exit::Output, error))?;
    let configuration = configuration(&options.run, &options.pages, &request, false)?;
    let runtime = runtime()?;
    let listeners =
        runtime.block_on(async { server::bind(listen, port) }).map_err(|error| taken(port, &error))?;
    let address = address(tls.is_some(), &listeners, port);
    let mode = if request.interfaces.is_empty() { Mode::Store } else { Mode::Live };
    let hub = Arc::new(Hub::new(about(&options.run, &request, mode), request.expression.clone()));
    let expression_options = expression_options(&options.run);
    let folder = options.pages.store.or_else(|| request.store.dir.value.clone());
    // On loopback without users and tokens, the user who started the program may change it.
    let changes = match (access.has_writers(), access.is_guarded()) {
        (true, _) => Changes::Expected,
        (false, true) => Changes::Never,
        (false, false) => Changes::Possible,
    };
    let doors = Doors { access, has_tls: tls.is_some(), log, folder: folder.clone(), echo: true };
    if mode == Mode::Store {
        let Some(folder) = &folder else {
            let text = "nothing to serve: give a capture, -i INTERFACE or --store DIR";
            return Err((Exit::Usage, text.to_owned()));
        };
        if !folder.is_dir() {
            return Err((Exit::Output, format!("{}: no such directory", folder.display())));
        }
        let user = Account::of_run(options.run.user.as_deref()).map_err(usage)?;
        let mut paths = Paths::default();
        paths.folder(folder);
        log_path.iter().for_each(|log| paths.beside(log));
        privileges::give_up(user.as_ref(), &paths).map_err(|error| (Exit::Output, error))?;
        hub.end(&weir_api::Snapshot::default());
        let answers = Answers::new(hub.answers());
        let app = app(
            Arc::clone(&hub),
            Some(stored(folder, &hub, &answers)?),
            answers,
            doors,
            configuration,
            None,
            expression_options,
        );
        let stop = signalled()?;
        serve_until(runtime, &stop, app, listeners, tls, &address);
        return Ok(Exit::Good);
    }
    let folder = Folder::of(folder, options.run.user.as_deref(), true)?;
    let (store, temporary) = (folder.path().to_owned(), folder.is_temporary());
    let (handle, described, path) = (runtime.handle().clone(), Arc::clone(&hub), store.clone());
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let (started, server) = std::sync::mpsc::channel();
    let of_run = Arc::clone(&configuration);
    let begin: Begin = Box::new(move |dump_index| {
        let answers = Answers::new(described.answers());
        let store =
            stored(&path, &described, &answers).map_err(|(_, error)| complain(Exit::Output, error)).ok();
        // The dump is already filtered by the run's expression.
        let packets = dump_index.map(|dump_index| PacketSource {
            captures: Captures::Written(dump_index),
            reading: ReadOptions::default(),
            expression: String::new(),
            chosen: None,
            expression_options,
        });
        let app = app(described, store, answers, doors, configuration, packets, expression_options);
        app.hub.note("start", format!("capture started on {}", app.hub.about.source.join(", ")));
        {
            let _inside = handle.enter();
            spawn(app, listeners, tls);
        }
        // The runtime has a separate thread, because the main thread is the collector's. It starts after the run has
        // dropped its privileges.
        let thread = std::thread::Builder::new().name("pages".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(LEAVE);
        });
        match thread {
            Ok(thread) => drop(started.send(thread)),
            Err(error) => drop(complain(Exit::Output, format!("the server cannot start: {error}"))),
        }
        emit(&address);
    });
    let beside = WebService {
        hub,
        store,
        temporary,
        log: log_path,
        changes,
        configuration: of_run,
        begin: Mutex::new(Some(begin)),
    };
    let run = Run::new(options.run, request, Some(beside))?;
    let exit = run.execute();
    drop(end);
    if let Ok(server) = server.try_recv() {
        let _ = server.join();
    }
    Ok(exit)
}

/// A runtime with one thread for all connections, which leaves the cores to packets.
fn runtime() -> Result<Runtime, (Exit, String)> {
    let built = Builder::new_current_thread().enable_all().max_blocking_threads(32).build();
    built.map_err(|error| (Exit::Output, format!("the server cannot start: {error}")))
}

/// Access control of the server, and its log.
struct Doors {
    access: Access,
    has_tls: bool,
    /// The file given for the access log.
    log: Option<LogFile>,
    /// The folder of the store, which has the log if no file is given.
    folder: Option<PathBuf>,
    /// Whether lines of the log also go to standard error.
    echo: bool,
}

fn app(
    hub: Arc<Hub>,
    kept: Option<Kept>,
    answers: Answers,
    doors: Doors,
    configuration: Arc<Configuration>,
    packets: Option<PacketSource>,
    expression_options: ExpressionOptions,
) -> Arc<App> {
    let counts = Arc::new(Counts::default());
    // A folder that is not writable can still be served.
    let in_folder = |folder: PathBuf| {
        let opened = LogFile::open(&folder.join(access_log::NAME));
        opened.map_err(|error| eprintln!("weir: {error}; use --access-log to choose another file")).ok()
    };
    let file = doors.log.or_else(|| doors.folder.and_then(in_folder));
    let (store, marks, signatures) = match kept {
        Some(Kept { store, marks, signatures }) => (Some(store), Some(marks), Some(Mutex::new(signatures))),
        None => (None, None, None),
    };
    Arc::new(App {
        hub,
        store,
        marks,
        signatures,
        log: AccessLog::start(file, doors.echo, &counts),
        counts,
        access: doors.access,
        has_tls: doors.has_tls,
        streams: Shares::new(live::MAX_STREAMS, live::MAX_STREAMS_OF_ONE),
        checks: Shares::new(routes::MAX_CHECKS, routes::MAX_CHECKS_OF_ONE),
        changes: Shares::new(routes::MAX_CHANGES, routes::MAX_CHANGES),
        configuration,
        packets,
        expression_options,
        readers: Mutex::default(),
        answers,
    })
}

fn router(app: &Arc<App>) -> Router {
    routes::router(app)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(app), security::guard))
        .layer(middleware::from_fn_with_state(Arc::clone(app), security::headers))
        .with_state(Arc::clone(app))
}

/// Serves until the stop flag is set.
fn serve_until(
    runtime: Runtime,
    stop: &AtomicBool,
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    address: &str,
) {
    runtime.block_on(async {
        spawn(app, listeners, tls);
        emit(address);
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    });
    runtime.shutdown_timeout(LEAVE);
}

fn spawn(app: Arc<App>, listeners: Vec<TcpListener>, tls: Option<TlsAcceptor>) {
    let (router, room) = (router(&app), server::Room::new(Arc::clone(&app.counts)));
    for listener in listeners {
        tokio::spawn(server::accept(listener, tls.clone(), router.clone(), Arc::clone(&room)));
    }
    tokio::spawn(routes::sweep(Arc::clone(&app)));
    tokio::spawn(live::broadcast(app));
}

/// Directory of the store: a named one, or a temporary one that is removed at the end.
enum Folder {
    Named(PathBuf),
    Temporary(TemporaryFolder),
}

impl Folder {
    /// The folder for a run, which may change its user.
    fn of(named: Option<PathBuf>, user: Option<&str>, is_live: bool) -> Result<Folder, (Exit, String)> {
        if let Some(path) = named {
            return Ok(Folder::Named(path));
        }
        let user = if is_live || user.is_some() { Account::of_run(user) } else { Ok(None) };
        let made = match user.map_err(|error| (Exit::Usage, error))?.map(|user| user.numbers()) {
            Some((user, group)) => TemporaryFolder::create_for("weir-", user, group),
            None => TemporaryFolder::create("weir-"),
        };
        made.map(Folder::Temporary).map_err(|error| {
            let folder = std::env::temp_dir();
            (
                Exit::Output,
                format!("{}: {error}; use --store DIR to choose another directory", folder.display()),
            )
        })
    }

    fn is_temporary(&self) -> bool {
        matches!(self, Folder::Temporary(_))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Named(path) => path,
            Folder::Temporary(folder) => folder.path(),
        }
    }
}

/// A store that is open, what people say about its events, and the port signatures that its runs have found.
struct Kept {
    store: Arc<dyn Store>,
    marks: Arc<dyn Marks>,
    signatures: Box<dyn Signatures>,
}

/// Opens the store of a directory. Its queries take the memory of answers.
fn stored(folder: &Path, hub: &Hub, answers: &Answers) -> Result<Kept, (Exit, String)> {
    let store = database::read_within(folder, hub.health(), answers.lender());
    let store = store.map_err(|error| (Exit::Output, error.to_string()))?;
    let (marks, signatures) = (Arc::from(database::marks(folder)), database::signatures(folder));
    Ok(Kept { store: Arc::from(store), marks, signatures })
}

/// Binds the given port, or the first free one from the default on.
fn free(asked: Option<u16>) -> Result<(Vec<TcpListener>, u16), (Exit, String)> {
    if let Some(port) = asked {
        let listeners = server::bind(None, port).map_err(|error| taken(port, &error))?;
        return Ok((listeners, port));
    }
    let mut last = None;
    for port in cli::PORT..cli::PORT + PORTS {
        match server::bind(None, port) {
            Ok(listeners) => {
                if port != cli::PORT {
                    eprintln!("weir: port {} is in use; using {port}", cli::PORT);
                }
                return Ok((listeners, port));
            }
            Err(error) => last = Some(taken(port, &error)),
        }
    }
    Err(last.unwrap_or_else(|| (Exit::Output, "no free port".to_owned())))
}

fn taken(port: u16, error: &std::io::Error) -> (Exit, String) {
    let text = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("port {port} is in use, perhaps by another Weir: choose another with --port N")
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("port {port} needs CAP_NET_BIND_SERVICE: ports from 1024 on need no privilege")
        }
        std::io::ErrorKind::AddrNotAvailable => "the address does not belong to this machine".to_owned(),
        _ => format!("port {port}: {error}"),
    };
    (Exit::Output, text)
}

/// URL of the pages.
fn address(tls: bool, listeners: &[TcpListener], port: u16) -> String {
    let scheme = if tls { "https" } else { "http" };
    let host = match listeners
        .first()
        .and_then(|listener| listener.local_addr().ok())
        .as_ref()
        .map(SocketAddr::ip)
    {
        None | Some(IpAddr::V4(_)) if listeners.len() > 1 => "127.0.0.1".to_owned(),
        Some(IpAddr::V6(address)) => format!("[{address}]"),
        Some(IpAddr::V4(address)) => address.to_string(),
        None => "127.0.0.1".to_owned(),
    };
    format!("{scheme}://{host}:{port}/")
}

/// Prints a line on standard output; a closed pipe is ignored.
fn emit(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The stop flag, set by SIGINT and SIGTERM.
fn signalled() -> Result<Arc<AtomicBool>, (Exit, String)> {
    let signals = Signals::default();
    signals.take(false, false).map_err(|error| (Exit::Usage, error))?;
    Ok(signals.stop)
}

fn about(options: &cli::RunOptions, request: &Request, mode: Mode) -> About {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let source = match mode {
        Mode::File => request.inputs.iter().map(named).collect(),
        _ => request.interfaces.clone(),
    };
    About {
        sensor: if name.trim().is_empty() { "weir".to_owned() } else { name.trim().to_owned() },
        mode,
        source,
        options: repeated(options, request),
        times: request.times.map_or([None; 2], |range| {
            [(range.from.0 > 0).then_some(range.from.0), (range.until.0 < u64::MAX).then_some(range.until.0)]
        }),
        started: clock(),
        interval: request.interval,
        zone: options.tz.clone().unwrap_or_else(|| "UTC".to_owned()),
    }
}

/// Options with which a command has the packets and flows of a run over files; `None` if its input cannot be read again.
fn repeated(options: &cli::RunOptions, request: &Request) -> Option<Vec<String>> {
    if !request.inputs.iter().all(Input::can_be_read_again) {
        return None;
    }
    let mut words = Vec::new();
    if options.snaplen > 0 {
        words.extend(["--snaplen".to_owned(), options.snaplen.to_string()]);
    }
    let checksum = match request.checksum {
        ChecksumMode::Auto => None,
        ChecksumMode::On => Some("on"),
        ChecksumMode::Tcp => Some("tcp"),
        ChecksumMode::Off => Some("off"),
    };
    words.extend(checksum.into_iter().flat_map(|mode| ["--checksum".to_owned(), mode.to_owned()]));
    let flags = [
        (options.vlan, "--vlan"),
        (options.inner, "--inner"),
        (options.strict_bpf, "--strict-bpf"),
        (options.recover, "--recover"),
    ];
    words.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned()));
    Some(words)
}

fn named(input: &Input) -> String {
    input.path().map_or("-".to_owned(), |path| path.display().to_string())
}

/// The capture files, if all of them can be read again.
fn source(options: &cli::RunOptions, request: &Request) -> Option<PacketSource> {
    let can_be = request.inputs.iter().all(Input::can_be_read_again);
    can_be.then(|| PacketSource {
        captures: Captures::Read(request.inputs.clone()),
        reading: ReadOptions {
            times: request.times,
            snaplen: (options.snaplen > 0).then_some(options.snaplen),
            recover: options.recover,
            ..ReadOptions::default()
        },
        expression: request.expression.clone(),
        chosen: request.chosen.as_ref().map(|chosen| Arc::clone(&chosen.flows)),
        expression_options: expression_options(options),
    })
}

fn expression_options(options: &cli::RunOptions) -> ExpressionOptions {
    ExpressionOptions { strict_bpf: options.strict_bpf, inner: options.inner }
}

/// The configuration, with the values of the command line that override it.
fn configuration(
    options: &cli::RunOptions,
    pages: &cli::Pages,
    request: &Request,
    is_short: bool,
) -> Result<Arc<Configuration>, (Exit, String)> {
    let mut given = Vec::new();
    let mut set = |is_given: bool, key: &'static str, value: String| {
        if is_given {
            given.push((key, value, "command line"));
        }
    };
    let path: Option<&Path> = request.config.as_deref();
    let configured = Configuration::read(path, Vec::new()).map_err(|error| (Exit::Usage, error))?;
    set(options.interval.is_some(), "interval", format!("{}s", request.interval / 1_000_000_000));
    set(options.memory.is_some(), "memory", format!("{}M", request.memory >> 20));
    set(options.workers > 0, "workers", options.workers.to_string());
    set(!options.interface.is_empty(), "interfaces", options.interface.join(", "));
    set(
        !request.expression.is_empty() && configured.expression() != request.expression,
        "expression",
        request.expression.clone(),
    );
    if let (Some(directory), Some((_, kinds))) = (&options.logs.output, &request.logs) {
        set(true, "output.dir", directory.display().to_string());
        set(!options.logs.log.is_empty(), "output.log", kinds.join(", "));
    }
    set(
        options.logs.log_rotate.is_some(),
        "output.rotate",
        format!("after {}s", request.rotate.unwrap_or(0) / 1_000_000_000),
    );
    set(
        options.logs.log_rotate_size.is_some(),
        "output.rotate_size",
        format!("after {} bytes", request.rolling.bytes.unwrap_or(0)),
    );
    set(options.logs.log_zstd, "output.zstd", "true".to_owned());
    if let Some(name) = options.packets.whole().next() {
        set(true, "packets.write", name.to_owned());
    }
    if let Some(port) = pages.port {
        set(true, "server.port", port.to_string());
    }
    if let Some(store) = &pages.store {
        set(true, "store.dir", store.display().to_string());
    }
    if let Some(limits) = options.logs.keep {
        let keep = limits.over(request.store.keep());
        let given = [limits.age, limits.bytes, limits.free];
        for ((key, value), given) in crate::config::limits(&keep).into_iter().zip(given) {
            set(given.is_some(), key, value);
        }
    }
    if is_short {
        given.push(("interval", "1s".to_owned(), "short capture"));
    }
    Ok(Arc::new(configured.with(given)))
}

/// `weir serve --hash-password`.
fn hash_password(name: &str) -> Result<Exit, (Exit, String)> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(1 << 16).read_to_string(&mut text);
    read.map_err(|error| (Exit::Unreadable, format!("standard input: {error}")))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    let line = access::user_line(name, password).map_err(|error| (Exit::Usage, error))?;
    emit(&line);
    Ok(Exit::Good)
}
