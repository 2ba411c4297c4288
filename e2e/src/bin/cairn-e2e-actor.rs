//! `cairn-e2e-actor`: an actor that sends requests to its peers and answers theirs, on one thread.
//!
//! Each actor sends a request to every peer ten times a second. The two actors of the hot pair send the next one as soon as
//! they have the answer. The environment has:
//!
//! - `HOT_PAIR_FILE`: a file with the indices of the hot pair, such as `0-3`, read ten times a second
//! - `SERVICE_MICROSECONDS`: how long an answer takes
//! - `JOURNAL_FILE`: if set, every received request is a line of this file: the receiver, when its process began, the time; the
//!   sender, when its process began, when it sent; the number. Times are in nanoseconds
//!
//! Counters are on `:9100/metrics`, as docs/reference/metrics.md describes those of actors. A connection begins with the name of the
//! sender and when its process began. Each request has a number and the time when it was sent; a wrong answer closes the connection.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::Write as _,
    process::ExitCode,
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    task::{LocalSet, spawn_local},
    time::{sleep, timeout},
};

/// The port for requests.
const PORT: u16 = 7000;
/// The port of the counters.
const METRICS: u16 = 9100;
/// The time between two requests of a pair that is not hot, and between two reads of the hot pair.
const COLD: Duration = Duration::from_millis(100);
/// The limit for an answer; after that the connection is made anew.
const LIMIT: Duration = Duration::from_secs(2);
/// The delay before another attempt to connect.
const RETRY: Duration = Duration::from_millis(200);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match LocalSet::new().run_until(run()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The actor's own counters.
#[derive(Default)]
struct Counters {
    /// Answers by peer.
    sent: RefCell<BTreeMap<String, u64>>,
    processed: Cell<u64>,
    busy: Cell<Duration>,
}

/// The actor, as its environment describes it.
struct Actor {
    name: String,
    /// `namespace/application`, before the name of a peer.
    application: String,
    index: usize,
    hot_pair: Cell<Option<(usize, usize)>>,
    service: Duration,
    counters: Counters,
    /// When the process began, by [`nanoseconds`].
    began: u64,
    journal: Option<File>,
}

/// The time of the machine's clock in nanoseconds since 1970.
fn nanoseconds() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("the environment has no {name}"))
}

/// Opens the journal, to which several actors append.
fn open(journal: &str) -> Result<File> {
    OpenOptions::new().append(true).open(journal).with_context(|| format!("cannot open {journal}"))
}

fn index(actor: &str) -> Option<usize> {
    actor.rsplit_once('-')?.1.parse().ok()
}

impl Actor {
    fn read() -> Result<Self> {
        let name = variable("CAIRN_ACTOR")?;
        Ok(Self {
            index: index(&name).with_context(|| format!("the actor {name} has no number"))?,
            hot_pair: Cell::new(None),
            service: Duration::from_micros(variable("SERVICE_MICROSECONDS")?.parse()?),
            counters: Counters::default(),
            application: format!("{}/{}", variable("CAIRN_NAMESPACE")?, variable("CAIRN_APPLICATION")?),
            began: nanoseconds()?,
            journal: variable("JOURNAL_FILE").ok().as_deref().map(open).transpose()?,
            name,
        })
    }

    /// Records a request in the journal.
    fn record(&self, (sender, began, sent): (&str, u64, u64), number: u64) -> Result<()> {
        let Some(mut journal) = self.journal.as_ref() else { return Ok(()) };
        let receiver = format!("{} {} {}", self.name, self.began, nanoseconds()?);
        let line = format!("{receiver} {sender} {began} {sent} {number}\n");
        // At once, so that lines of several actors do not mix.
        journal.write_all(line.as_bytes()).context("cannot write the journal")
    }

    /// Whether this actor and a peer are the hot pair now.
    fn is_hot(&self, peer: usize) -> bool {
        let hot = self.hot_pair.get();
        hot == Some((self.index, peer)) || hot == Some((peer, self.index))
    }

    fn metrics(&self) -> String {
        let (actor, counters, application) = (&self.name, &self.counters, &self.application);
        let mut text = "# TYPE actor_channel_messages counter\n".to_owned();
        for (peer, sent) in counters.sent.borrow().iter() {
            let _ = writeln!(
                text,
                "actor_channel_messages_total{{actor=\"{actor}\",peer=\"{application}/{peer}\"}} {sent}"
            );
        }
        for (name, value) in [
            ("actor_messages_processed_total", counters.processed.get().to_string()),
            ("actor_busy_seconds_total", counters.busy.get().as_secs_f64().to_string()),
        ] {
            let _ = writeln!(text, "# TYPE {name} counter\n{name}{{actor=\"{actor}\"}} {value}");
        }
        text
    }
}

/// The pair in a file such as `0-3`.
fn pair(text: &str) -> Option<(usize, usize)> {
    let (one, other) = text.trim().split_once('-')?;
    Some((one.parse().ok()?, other.parse().ok()?))
}

/// Keeps the hot pair that of the file; a file without a pair makes none hot.
async fn follow_hot_pair(actor: Rc<Actor>, file: String) {
    loop {
        actor.hot_pair.set(std::fs::read_to_string(&file).ok().as_deref().and_then(pair));
        sleep(COLD).await;
    }
}

async fn run() -> Result<()> {
    let actor = Rc::new(Actor::read()?);
    let file = variable("HOT_PAIR_FILE")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let peers: Value = serde_json::from_str(&std::fs::read_to_string(variable("CAIRN_PEERS_FILE")?)?)?;
    let hosts = peers["actors"].as_object().context("the peers file lists no actors")?.values();
    let hosts = hosts.flat_map(|hosts| hosts.as_array().into_iter().flatten().filter_map(Value::as_str));
    let (requests, counters) = (listen(PORT).await?, listen(METRICS).await?);
    spawn_local(follow_hot_pair(actor.clone(), file));
    spawn_local(accept(requests, actor.clone(), answer));
    spawn_local(accept(counters, actor.clone(), show));
    for host in hosts.map(str::to_owned) {
        let peer = host.split('.').next().unwrap_or_default().to_owned();
        if peer != actor.name
            && let Some(number) = index(&peer)
        {
            spawn_local(ask(actor.clone(), host, peer, number));
        }
    }
    terminate.recv().await;
    Ok(())
}

async fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", port)).await.with_context(|| format!("cannot listen on port {port}"))
}

async fn accept<F>(listener: TcpListener, actor: Rc<Actor>, serve: impl Fn(TcpStream, Rc<Actor>) -> F)
where
    F: Future<Output = Result<()>> + 'static,
{
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let served = serve(stream, actor.clone());
            spawn_local(async {
                // The peer connects again.
                let _ = served.await;
            });
        }
    }
}

/// Answers each request with its number, after the service time.
async fn answer(mut stream: TcpStream, actor: Rc<Actor>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut sender = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut sender).await?;
    let (sender, began) = (String::from_utf8(sender)?, stream.read_u64().await?);
    loop {
        let (number, sent) = (stream.read_u64().await?, stream.read_u64().await?);
        actor.record((&sender, began, sent), number)?;
        let start = Instant::now();
        while start.elapsed() < actor.service {
            std::hint::spin_loop();
        }
        let counters = &actor.counters;
        counters.busy.set(counters.busy.get() + start.elapsed());
        counters.processed.set(counters.processed.get() + 1);
        stream.write_u64(number).await?;
    }
}

/// Sends requests to a peer, wherever it is.
async fn ask(actor: Rc<Actor>, host: String, peer: String, number: usize) {
    let mut next = 0;
    loop {
        // Every connection begins with an address looked up anew, as the peer may have moved.
        let connected = timeout(LIMIT, TcpStream::connect((host.as_str(), PORT))).await;
        if let Ok(Ok(stream)) = connected {
            let _ = requests(&actor, stream, &peer, number, &mut next).await;
        }
        sleep(RETRY).await;
    }
}

async fn requests(
    actor: &Actor,
    mut stream: TcpStream,
    peer: &str,
    number: usize,
    next: &mut u64,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let length = u8::try_from(actor.name.len()).context("the actor's name is too long")?;
    let mut head = vec![length];
    head.extend(actor.name.as_bytes());
    head.extend(actor.began.to_be_bytes());
    stream.write_all(&head).await?;
    loop {
        *next += 1;
        let mut request = next.to_be_bytes().to_vec();
        request.extend(nanoseconds()?.to_be_bytes());
        stream.write_all(&request).await?;
        let answered = timeout(LIMIT, stream.read_u64()).await.context("no answer")??;
        ensure!(answered == *next, "{peer} answers {answered} instead of {next}");
        *actor.counters.sent.borrow_mut().entry(peer.to_owned()).or_default() += 1;
        if !actor.is_hot(number) {
            sleep(COLD).await;
        }
    }
}

/// Answers a scrape.
async fn show(stream: TcpStream, actor: Rc<Actor>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let text = actor.metrics();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
