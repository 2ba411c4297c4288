//! The baseline of [`weight`](weight.rs): the same program without the runtime.

fn main() {
    let sum = std::thread::spawn(|| b"hello".iter().map(|byte| u32::from(*byte)).sum::<u32>());
    println!("{:?}", sum.join());
}
