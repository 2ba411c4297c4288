//! Ping-pong: `ping_pong [LARGEST] [ROUNDS] [SMALLEST]` within a process, `cairn-run -n 2 [--tcp] ping_pong …` between two.
//!
//! From SMALLEST (1 byte) to LARGEST by powers of two; the largest needs six times as much memory. For each size: the best,
//! median and mean round trip of ROUNDS (10), the deviation, and the goodput of the best. Baselines are as many plain copies,
//! on one thread and on two, or with `--tcp` blocking TCP over loopback; within a process also `rtrb` and `crossbeam`, at 1
//! byte.

#![allow(clippy::cast_precision_loss, reason = "times and sizes are small")]

#[path = "programs/ping_pong.rs"]
mod ping_pong;

use std::{
    hint::black_box,
    ops::RangeInclusive,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use runtime::{
    CommunicationManager, Error, InstanceId, InstanceManager, MemoryManager, TopologyManager,
    backends::{host, processes, tcp},
    frontends::channel::Setup,
};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let largest = arguments.next().unwrap_or(1 << 20);
    let rounds = arguments.next().unwrap_or(10);
    let sizes = arguments.next().unwrap_or(1)..=largest;
    if tcp::launched() {
        let it = tcp::join()?;
        if it.instances.current().id() == it.instances.root_id() {
            median("blocking TCP over the loopback, 1 byte", by_sockets(1, 3_000)?);
        }
        let beside = |size| Ok([goodput(size, least(by_sockets(size, 10)?)), f64::NAN]);
        play(&it.instances, &it.topology, &it.memory, &it.communication, &beside, &sizes, rounds)
    } else if processes::launched() {
        let it = processes::join()?;
        play(&it.instances, &it.topology, &it.memory, &it.communication, &by_hand, &sizes, rounds)
    } else {
        let it = host::alone()?;
        by_rtrb();
        by_crossbeam();
        play(&it.instances, &it.topology, &it.memory, &it.communication, &by_hand, &sizes, rounds)
    }
}

fn play(
    instances: &dyn InstanceManager,
    topology: &dyn TopologyManager,
    memory: &dyn MemoryManager,
    communication: &dyn CommunicationManager,
    beside: &dyn Fn(usize) -> Result<[f64; 2], Error>,
    sizes: &RangeInclusive<usize>,
    rounds: usize,
) -> Result<(), Error> {
    let me = instances.current().id();
    let root = instances.root_id();
    let other = instances.instances().iter().map(runtime::Instance::id).find(|id| *id != root);
    let pair: [InstanceId; 2] = [root, other.unwrap_or(root)];
    let topology = topology.query()?;
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.clone().find(|space| memory.claims(space));
    let space = space.ok_or_else(|| Error::misuse("play", "there is no memory space"))?;
    let setup = Setup { memory, communication, space, me };
    if me == root {
        println!(
            "{:>12} {:>12} {:>12} {:>12} {:>12} {:>10} {:>10} {:>7} {:>10} {:>7}",
            "bytes",
            "best us",
            "median us",
            "mean us",
            "deviation",
            "best GB/s",
            "beside",
            "ratio",
            "by two",
            "ratio"
        );
    }
    for power in sizes.start().ilog2()..=sizes.end().ilog2() {
        let size = 1_usize << power;
        // Small messages are repeated for a measurable duration.
        let rounds = if size <= 4096 { rounds * 1000 } else { rounds };
        let [first, second] = ping_pong::sides(setup, u64::from(power) * 2 + 1, pair, size)?;
        let times = std::thread::scope(|threads| -> Result<_, Error> {
            let echo = second.map(|mut second| threads.spawn(move || second.pong(rounds)));
            let times = first.map(|mut first| first.ping(rounds)).transpose()?;
            if let Some(echo) = echo {
                echo.join().map_err(|_| Error::misuse("play", "the second side panicked"))??;
            }
            Ok(times)
        })?;
        let Some(times) = times else { continue };
        let mut seconds: Vec<f64> = times.iter().map(std::time::Duration::as_secs_f64).collect();
        seconds.sort_by(f64::total_cmp);
        let (median, mean) = (seconds[seconds.len() / 2], seconds.iter().sum::<f64>() / seconds.len() as f64);
        let deviation =
            (seconds.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / seconds.len() as f64).sqrt();
        let goodput = goodput(size, seconds[0]);
        let [beside, by_two] = if size >= 1 << 16 { beside(size)? } else { [f64::NAN; 2] };
        println!(
            "{size:12} {:12.3} {:12.3} {:12.3} {:12.3} {goodput:10.4} {beside:10.4} {:7.3} {by_two:10.4} {:7.3}",
            seconds[0] * 1e6,
            median * 1e6,
            mean * 1e6,
            deviation * 1e6,
            goodput / beside,
            goodput / by_two
        );
    }
    Ok(())
}

/// In bytes per nanosecond; a round trip carries a message each way.
fn goodput(size: usize, seconds: f64) -> f64 {
    2.0 * size as f64 / seconds / 1e9
}

fn least(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::MAX, f64::min)
}

/// Goodput of as many plain copies as a round trip makes: slot to ring, ring to buffer, buffer to slot
/// at the echo, and the first two again.
#[allow(clippy::unnecessary_wraps, reason = "same signature as its alternatives")]
fn by_hand(size: usize) -> Result<[f64; 2], Error> {
    let mut places =
        [vec![1_u8; size], vec![2_u8; size], vec![3_u8; size], vec![4_u8; size], vec![5_u8; size]];
    let mut least = f64::MAX;
    for _ in 0..10 {
        let begin = Instant::now();
        for at in 0..5 {
            let [from, to] = places.get_disjoint_mut([at, (at + 1) % 5]).expect("they are two");
            black_box(to).copy_from_slice(black_box(from));
        }
        least = least.min(begin.elapsed().as_secs_f64());
    }
    // At 2 GiB the memory does not suffice for both.
    drop(places);
    Ok([goodput(size, least), by_two(size)])
}

/// As [`by_hand`], but each end makes its own copies: the bytes move between the processors' caches.
fn by_two(size: usize) -> f64 {
    let rings = [Mutex::new(vec![1_u8; size]), Mutex::new(vec![2_u8; size])];
    let turn = AtomicUsize::new(0);
    let until = |mine: usize| {
        while turn.load(Ordering::Acquire) != mine {
            std::hint::spin_loop();
        }
    };
    let ring = |number: usize| rings[number].lock().expect("its holder does not panic");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let (mut bytes, mut slot) = (vec![3_u8; size], vec![4_u8; size]);
            for round in 0..10 {
                until(2 * round + 1);
                bytes.copy_from_slice(&ring(0));
                slot.copy_from_slice(black_box(&bytes));
                ring(1).copy_from_slice(black_box(&slot));
                turn.store(2 * round + 2, Ordering::Release);
            }
        });
        let (mut bytes, slot) = (vec![5_u8; size], vec![6_u8; size]);
        let mut least = f64::MAX;
        for round in 0..10 {
            let begin = Instant::now();
            ring(0).copy_from_slice(black_box(&slot));
            turn.store(2 * round + 1, Ordering::Release);
            until(2 * round + 2);
            bytes.copy_from_slice(&ring(1));
            black_box(&bytes);
            least = least.min(begin.elapsed().as_secs_f64());
        }
        goodput(size, least)
    })
}

fn by_rtrb() {
    const ROUNDS: usize = 10_000;
    let (mut there, mut end) = rtrb::RingBuffer::<u8>::new(1);
    let (mut back, mut home) = rtrb::RingBuffer::<u8>::new(1);
    let echo = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let byte = loop {
                if let Ok(byte) = end.pop() {
                    break byte;
                }
                std::hint::spin_loop();
            };
            while back.push(byte).is_err() {}
        }
    });
    let times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            while there.push(7).is_err() {}
            while home.pop().is_err() {
                std::hint::spin_loop();
            }
            begin.elapsed().as_secs_f64()
        })
        .collect();
    let _ = echo.join();
    median("rtrb, 1 byte", times);
}

fn median(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!("{what}: best {:.3} us, median {:.3} us", times[0] * 1e6, times[times.len() / 2] * 1e6);
}

fn by_crossbeam() {
    const ROUNDS: usize = 10_000;
    let (there, end) = crossbeam_channel::bounded::<u8>(1);
    let (back, home) = crossbeam_channel::bounded::<u8>(1);
    let echo = std::thread::spawn(move || end.iter().all(|byte| back.send(byte).is_ok()));
    let round = |_| {
        let begin = Instant::now();
        let answered = there.send(7).is_ok() && home.recv().is_ok();
        assert!(answered, "the echo lives as long as its channel");
        begin.elapsed().as_secs_f64()
    };
    let times = (0..ROUNDS).map(round).collect();
    drop(there);
    let _ = echo.join();
    median("crossbeam, 1 byte", times);
}

/// Blocking TCP over loopback, one read and one write each way: the round trips.
fn by_sockets(size: usize, rounds: usize) -> Result<Vec<f64>, Error> {
    use std::io::{Read, Write};
    let wrong = |error: std::io::Error| Error::system("play over sockets", error);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let mut there = std::net::TcpStream::connect(listener.local_addr().map_err(wrong)?).map_err(wrong)?;
    let (mut echo, _) = listener.accept().map_err(wrong)?;
    there.set_nodelay(true).and_then(|()| echo.set_nodelay(true)).map_err(wrong)?;
    let echo = std::thread::spawn(move || {
        let mut bytes = vec![0; size];
        while echo.read_exact(&mut bytes).and_then(|()| echo.write_all(&bytes)).is_ok() {}
    });
    let mut bytes = vec![7; size];
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        there.write_all(&bytes).and_then(|()| there.read_exact(&mut bytes)).map_err(wrong)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    drop(there);
    let _ = echo.join();
    Ok(times)
}
