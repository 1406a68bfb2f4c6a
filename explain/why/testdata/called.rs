// Requests of one tenant are slow, in Rust. Symbols that are exported keep the compiler from passing members of
// requests instead of requests.
use std::time::Duration;

pub struct Request {
    tenant: u32,
    key: String,
}

fn noise(id: u64) -> u64 {
    let id = (id ^ id >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    (id ^ id >> 27).wrapping_mul(0x94d049bb133111eb) >> 33
}

#[inline(never)]
#[no_mangle]
pub fn look_up(r: &Request, id: u64) -> usize {
    if r.tenant == 17 {
        std::thread::sleep(Duration::from_micros(10_000 + noise(id) % 10_000));
    }
    r.key.len()
}

#[inline(never)]
#[no_mangle]
pub fn handle(r: &Request, id: u64) -> usize {
    let mut sum = look_up(r, id);
    for i in 0..3000 {
        sum = std::hint::black_box(sum + i);
    }
    sum
}

fn main() {
    let seed: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let mut sum = 0;
    for i in 0..1500 {
        let id = seed * 1000003 + i;
        let tenant = if noise(id + 1) % 40 == 0 { 17 } else { noise(id + 2) as u32 % 16 };
        let r = Request { tenant, key: "k".repeat(noise(id + 3) as usize % 20) };
        sum += handle(&r, id);
    }
    std::hint::black_box(sum);
}
