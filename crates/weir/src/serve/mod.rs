//! The pages and the HTTP interface: `weir open` and `weir serve`.
//!
//! The server has a thread of its own, on which everything waits at once; what takes time (the store, a capture that
//! is read again, a password) has threads that may wait. It reads what the run has told the [`hub`], and nothing that
//! it does can hold the run up.

mod access;
mod access_log;
mod app;
mod attempts;
mod body;
mod config;
mod counts;
mod failure;
pub mod hub;
mod live;
mod owner;
mod packets;
mod pages;
mod private;
mod rights;
mod routes;
mod security;
mod server;
mod shares;
mod tls;

pub use config::Control;

use crate::cli;
use crate::dump::index::DumpIndex;
use crate::exit::{Exit, complain};
use crate::run::{Request, Session};
use access::Access;
use access_log::{AccessLog, LogFile};
use app::{App, Reading};
use axum::extract::DefaultBodyLimit;
use axum::{Router, middleware};
use config::Configuration;
use counts::Counts;
use hub::{About, Hub};
use packets::{Captures, Source};

use shares::Shares;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;
use weir_api::web::Mode;
use weir_capture::Input;
use weir_files::TemporaryFolder;
use weir_output::store::Store;
use weir_output::store::sqlite::SqliteStore;

/// Bytes of a request's body.
const MAX_BODY: usize = 1 << 20;
/// Bytes of captures that are short.
const SHORT: u64 = 256 << 20;
/// Nanoseconds of a report of them.
const SHORT_INTERVAL: u64 = 1_000_000_000;
/// Ports that `weir open` tries one after the other.
const PORTS: u16 = 100;
/// How often it is looked whether the program is to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long answers that have begun may go on when the program ends.
const LEAVE: Duration = Duration::from_millis(300);

/// The pages beside a run.
pub struct WebService {
    /// Who is told.
    pub hub: Arc<Hub>,
    /// The folder of the store.
    pub store: PathBuf,
    /// Whether a configuration may be applied.
    pub changeable: bool,
    /// Begins to serve when the run has begun.
    begin: Mutex<Option<Begin>>,
}

type Begin = Box<dyn FnOnce(Box<dyn Control>, Option<DumpIndex>) + Send>;

impl WebService {
    /// The run has begun, can be changed so, and writes its packets there.
    pub fn begin(&self, control: impl Control + 'static, dump_index: Option<DumpIndex>) {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin(Box::new(control), dump_index);
        }
    }
}

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
    let is_short = options.run.interval.is_none() && request.config.is_none() && is_short(&request);
    if is_short {
        request.interval = SHORT_INTERVAL;
    }
    if request.inputs.is_empty() {
        let text = "open: which capture? `weir open x.pcap`; `weir serve -i IF` is for links";
        return Err((Exit::Usage, text.to_owned()));
    }
    let runtime = runtime()?;
    // The port is taken first: it is not found out behind a long analysis that it cannot be.
    let (listeners, port) = runtime.block_on(async { free(options.pages.port) })?;
    let mut access = Access::read(None, None).map_err(|error| (Exit::Usage, error))?;
    access.only_loopback(port);
    let configuration = configuration(&options.run, &options.pages, &request, is_short)?;
    let about = about(&options.run, &request, Mode::File);
    let hub = Arc::new(Hub::new(about, request.expression.clone()));
    hub.set_tables(Session::tables(&request));
    let mut packets = source(&options.run, &request);
    let named = options.pages.store.clone();
    let folder = Folder::of(options.pages.store)?;
    let store = folder.path().to_owned();
    let beside = WebService { hub: Arc::clone(&hub), store, changeable: false, begin: Mutex::default() };
    let reading = reading(&options.run);
    let session = Session::new(options.run, request, Some(beside))?;
    if session.is_anonymised() {
        packets = None;
    }
    let stop = session.stop();
    let exit = session.run();
    if stop.load(Ordering::Relaxed) || exit == Exit::Unreadable {
        return Ok(exit);
    }
    let store = stored(folder.path(), &hub)?;
    // The terminal is that of the user who downloads: only a store that is kept has a log.
    let doors = Doors { access, has_tls: false, log: None, folder: named, echo: false };
    let app = app(hub, Some(store), doors, configuration, packets, reading);
    let address = address(false, &listeners, port);
    if options.no_wait {
        emit(&format!("{address} is where `weir open` serves pages of this until Ctrl-C"));
        return Ok(exit);
    }
    serve_until(runtime, &stop, app, listeners, None, &address);
    Ok(exit)
}

fn attempt_serve(options: cli::Serve) -> Result<Exit, (Exit, String)> {
    if let Some(name) = &options.hash_password {
        return hash_password(name);
    }
    let mut request = Request::new(&options.run)?;
    request.pages = true;
    if !request.inputs.is_empty() {
        let text = "serve listens to links; `weir open x.pcap` serves pages of a capture";
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
            let text =
                format!("{address} can be reached by others, which needs {missing}; loopback needs neither");
            return Err((Exit::Usage, text));
        }
    }
    let port = options.pages.port.or(from.port.value).unwrap_or(cli::PORT);
    if listen.is_none_or(|address| address.is_loopback()) {
        access.only_loopback(port);
    }
    let log = options.access_log.as_deref().or(from.access_log.value.as_deref());
    let log = log.map(LogFile::open).transpose().map_err(|error| (Exit::Output, error))?;
    let configuration = configuration(&options.run, &options.pages, &request, false)?;
    let runtime = runtime()?;
    let listeners =
        runtime.block_on(async { server::bind(listen, port) }).map_err(|error| taken(port, &error))?;
    let address = address(tls.is_some(), &listeners, port);
    let mode = if request.interfaces.is_empty() { Mode::Store } else { Mode::Live };
    let hub = Arc::new(Hub::new(about(&options.run, &request, mode), request.expression.clone()));
    let reading = reading(&options.run);
    let folder = options.pages.store.or_else(|| request.store.dir.value.clone());
    let changeable = access.has_writers();
    let doors = Doors { access, has_tls: tls.is_some(), log, folder: folder.clone(), echo: true };
    if mode == Mode::Store {
        let Some(folder) = &folder else {
            let text = "serve: what? `-i IF` listens to a link, `--store DIR` shows what was stored";
            return Err((Exit::Usage, text.to_owned()));
        };
        hub.end(&weir_api::Snapshot::default());
        let app = app(Arc::clone(&hub), Some(stored(folder, &hub)?), doors, configuration, None, reading);
        let stop = signalled()?;
        serve_until(runtime, &stop, app, listeners, tls, &address);
        return Ok(Exit::Good);
    }
    hub.set_tables(Session::tables(&request));
    let folder = Folder::of(folder)?;
    let store = folder.path().to_owned();
    let (handle, described, path) = (runtime.handle().clone(), Arc::clone(&hub), store.clone());
    let begin: Begin = Box::new(move |control, dump_index| {
        let store = stored(&path, &described).map_err(|(_, error)| complain(Exit::Output, error)).ok();
        // What is in the dump has gone through the run's expression.
        let packets = dump_index.map(|dump_index| Source {
            captures: Captures::Written(dump_index),
            expression: String::new(),
            reading,
        });
        let app = app(described, store, doors, configuration, packets, reading);
        if changeable {
            app.configuration.control(control);
        }
        app.hub.note("start", format!("listening to {}", app.hub.about.source.join(", ")));
        let _inside = handle.enter();
        spawn(app, listeners, tls);
        emit(&address);
    });
    let beside = WebService { hub, store, changeable, begin: Mutex::new(Some(begin)) };
    // The runtime's own thread: the main one is the collector's.
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::Builder::new().name("pages".to_owned()).spawn(move || {
        let _ = runtime.block_on(ended);
        runtime.shutdown_timeout(LEAVE);
    });
    let server = server.map_err(|error| (Exit::Output, format!("the server cannot start: {error}")))?;
    let session = Session::new(options.run, request, Some(beside))?;
    let exit = session.run();
    drop(end);
    let _ = server.join();
    Ok(exit)
}

/// Whether there is so little to read that a chart wants a point a second.
fn is_short(request: &Request) -> bool {
    let size = |input: &Input| match input {
        Input::Path(path) => std::fs::metadata(path).map_or(0, |data| data.len()),
        Input::Stdin => u64::MAX,
    };
    request.inputs.iter().map(size).fold(0_u64, u64::saturating_add) <= SHORT
}

/// Everything waits on one thread, so that the cores are left to packets.
fn runtime() -> Result<Runtime, (Exit, String)> {
    let built = Builder::new_current_thread().enable_all().max_blocking_threads(32).build();
    built.map_err(|error| (Exit::Output, format!("the server cannot start: {error}")))
}

/// Who is let in, and where that is recorded.
struct Doors {
    access: Access,
    has_tls: bool,
    /// The file that was named for the access log.
    log: Option<LogFile>,
    /// The folder of the store, which has the log where no file was named.
    folder: Option<PathBuf>,
    /// Whether lines of the log go to standard error too.
    echo: bool,
}

fn app(
    hub: Arc<Hub>,
    store: Option<Arc<dyn Store>>,
    doors: Doors,
    configuration: Configuration,
    packets: Option<Source>,
    reading: Reading,
) -> Arc<App> {
    let counts = Arc::new(Counts::default());
    // A folder that cannot be written is no reason not to serve what is in it.
    let in_folder = |folder: PathBuf| {
        let opened = LogFile::open(&folder.join(access_log::NAME));
        opened.map_err(|error| eprintln!("weir: {error}; --access-log names another file")).ok()
    };
    let file = doors.log.or_else(|| doors.folder.and_then(in_folder));
    Arc::new(App {
        hub,
        store,
        log: AccessLog::start(file, doors.echo, &counts),
        counts,
        access: doors.access,
        has_tls: doors.has_tls,
        streams: Shares::new(live::MAX_STREAMS, live::MAX_STREAMS_OF_ONE),
        checks: Shares::new(routes::MAX_CHECKS, routes::MAX_CHECKS_OF_ONE),
        changes: Shares::new(routes::MAX_CHANGES, routes::MAX_CHANGES),
        configuration,
        packets,
        reading,
        readers: Mutex::default(),
        turns: App::turns(),
    })
}

fn router(app: &Arc<App>) -> Router {
    routes::router(app)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(app), security::guard))
        .layer(middleware::from_fn_with_state(Arc::clone(app), security::headers))
        .with_state(Arc::clone(app))
}

/// Serves until it is told to stop.
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
    tokio::spawn(live::broadcast(app));
}

/// Where the store is: the folder that was named, or one that is gone at the end.
enum Folder {
    Named(PathBuf),
    Temporary(TemporaryFolder),
}

impl Folder {
    fn of(named: Option<PathBuf>) -> Result<Folder, (Exit, String)> {
        match named {
            Some(path) => Ok(Folder::Named(path)),
            None => TemporaryFolder::create("weir-").map(Folder::Temporary).map_err(|error| {
                let folder = std::env::temp_dir();
                (Exit::Output, format!("{}: {error}; --store DIR names another folder", folder.display()))
            }),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Named(path) => path,
            Folder::Temporary(folder) => folder.path(),
        }
    }
}

/// What is stored in a folder.
fn stored(folder: &Path, hub: &Hub) -> Result<Arc<dyn Store>, (Exit, String)> {
    let store = SqliteStore::open(folder, hub.health());
    Ok(Arc::new(store.map_err(|error| (Exit::Output, error.to_string()))?))
}

/// The port that was asked for, or the first from the usual one that is free.
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
                    eprintln!("weir: port {} is taken: {port} is used", cli::PORT);
                }
                return Ok((listeners, port));
            }
            Err(error) => last = Some(taken(port, &error)),
        }
    }
    Err(last.unwrap_or_else(|| (Exit::Output, "there is no port".to_owned())))
}

fn taken(port: u16, error: &std::io::Error) -> (Exit, String) {
    let text = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("port {port} is taken, perhaps by another Weir: --port N takes another one")
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("port {port} needs a privilege (CAP_NET_BIND_SERVICE): those from 1024 on need none")
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => format!("port {port}: {error}"),
    };
    (Exit::Output, text)
}

/// Where the pages are, as a browser takes it.
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

/// A line on standard output, which may have gone.
fn emit(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Set when the program is to end.
fn signalled() -> Result<Arc<AtomicBool>, (Exit, String)> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| (Exit::Usage, format!("cannot handle signals: {error}")))?;
    }
    Ok(stop)
}

fn about(options: &cli::Run, request: &Request, mode: Mode) -> About {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let source = match mode {
        Mode::File => request.inputs.iter().map(named).collect(),
        _ => request.interfaces.clone(),
    };
    About {
        sensor: if name.trim().is_empty() { "weir".to_owned() } else { name.trim().to_owned() },
        mode,
        source,
        started: hub::clock(),
        interval: request.interval,
        zone: options.tz.clone().unwrap_or_else(|| "UTC".to_owned()),
    }
}

fn named(input: &Input) -> String {
    match input {
        Input::Path(path) => path.display().to_string(),
        Input::Stdin => "-".to_owned(),
    }
}

/// The captures, where all of them can be read again.
fn source(options: &cli::Run, request: &Request) -> Option<Source> {
    let file = |input: &Input| match input {
        Input::Path(path) if path.is_file() || path.is_dir() => Some(path.clone()),
        _ => None,
    };
    let files: Option<Vec<PathBuf>> = request.inputs.iter().map(file).collect();
    Some(Source {
        captures: Captures::Read(files?),
        expression: request.expression.clone(),
        reading: reading(options),
    })
}

fn reading(options: &cli::Run) -> Reading {
    Reading { strict_bpf: options.strict_bpf, inner: options.inner }
}

/// What the configuration says, and what the command line says over it.
fn configuration(
    options: &cli::Run,
    pages: &cli::Pages,
    request: &Request,
    is_short: bool,
) -> Result<Configuration, (Exit, String)> {
    let mut given = Vec::new();
    let mut says = |is_given: bool, key: &'static str, value: String| {
        if is_given {
            given.push((key, value, "command line"));
        }
    };
    let path: Option<&Path> = request.config.as_deref();
    let configured = Configuration::read(path, Vec::new()).map_err(|error| (Exit::Usage, error))?;
    says(options.interval.is_some(), "interval", format!("{}s", request.interval / 1_000_000_000));
    says(options.memory.is_some(), "memory", format!("{}M", request.memory >> 20));
    says(options.workers > 0, "workers", options.workers.to_string());
    says(!options.interface.is_empty(), "interfaces", options.interface.join(", "));
    says(
        !request.expression.is_empty() && configured.expression() != request.expression,
        "expression",
        request.expression.clone(),
    );
    if let (Some(directory), Some((_, kinds))) = (&options.output, &request.logs) {
        says(true, "output.dir", directory.display().to_string());
        says(!options.log.is_empty(), "output.log", kinds.join(", "));
    }
    says(
        options.log_rotate.is_some(),
        "output.rotate",
        format!("after {}s", request.rotate.unwrap_or(0) / 1_000_000_000),
    );
    says(
        options.log_rotate_size.is_some(),
        "output.rotate_size",
        format!("after {} bytes", request.rolling.bytes.unwrap_or(0)),
    );
    says(options.log_zstd, "output.zstd", "true".to_owned());
    if let Some(port) = pages.port {
        says(true, "server.port", port.to_string());
    }
    if let Some(store) = &pages.store {
        says(true, "store.dir", store.display().to_string());
    }
    if let Some(limits) = options.keep {
        let keep = limits.over(request.store.keep());
        let given = [limits.age, limits.bytes, limits.free];
        for ((key, value), given) in crate::config::limits(&keep).into_iter().zip(given) {
            says(given.is_some(), key, value);
        }
    }
    if is_short {
        given.push(("interval", "1s".to_owned(), "short capture"));
    }
    Ok(configured.with(given))
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
