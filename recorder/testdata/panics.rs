// Panics that are caught after values are dropped on the way, in threads.
use std::hint::black_box;
use std::panic;
use std::thread;

struct Guard(u64);

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(self.0);
    }
}

#[inline(never)]
fn check(n: u64) {
    if n % 10 == 0 {
        panic::panic_any(n);
    }
    black_box(n);
}

#[inline(never)]
fn request(n: u64) {
    let _guard = Guard(black_box(n));
    check(n);
    black_box(n);
}

#[inline(never)]
fn serve() -> u64 {
    let mut caught = 0;
    for n in 0..1000 {
        if panic::catch_unwind(|| request(n)).is_err() {
            caught += 1;
        }
    }
    caught
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(serve)).collect();
    let caught: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("{caught}");
}
