// Arguments and results of Rust. Lines that begin with //@ are the expressions of a function at its entry, and
// with //~ at its exit.
#![allow(dead_code, unused)]
use std::io::Write;

#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Op { Get = 1, Set = 2 }

struct Request { id: u64, key: String, op: Op, parts: Vec<u32>, next: Option<Box<Request>> }
#[derive(Clone, Copy)]
struct Id(u32);
#[derive(Clone, Copy)]
struct Pair { a: i32, b: i64 }
#[derive(Clone, Copy)]
struct Point { x: f64, y: f64 }

fn quoted(s: &str) -> String { format!("\"{}\"", s) }

macro_rules! line {
    ($($arg:tt)*) => {{ let mut o = std::io::stdout(); writeln!(o, $($arg)*).unwrap(); }};
}

//@ types::numbers: a, b, c, d, e, f
#[inline(never)]
fn numbers(a: i32, b: u64, c: f64, d: bool, e: char, f: i8) {
    line!("types::numbers a={} b={} c={} d={} e='{}' f={}", a, b, c, d, e, f);
}

//@ types::strings: a, a.len(), b, b.len(), c.len()
#[inline(never)]
fn strings(a: &str, b: &String, c: String) {
    line!("types::strings a={} a.len()={} b={} b.len()={} c.len()={}", quoted(a), a.len(), quoted(b), b.len(), c.len());
    std::mem::drop(c);
}

//@ types::slices: a.len(), a[1], b.len(), b[0], b[2]
#[inline(never)]
fn slices(a: &[i32], b: &Vec<u32>) {
    line!("types::slices a.len()={} a[1]={} b.len()={} b[0]={} b[2]={}", a.len(), a[1], b.len(), b[0],
        if b.len() > 2 { b[2].to_string() } else { "(none)".to_string() });
}

//@ types::structs: id.0, pair.a, pair.b, point.x, point.y, op
#[inline(never)]
fn structs(id: Id, pair: Pair, point: Point, op: Op) {
    line!("types::structs id.0={} pair.a={} pair.b={} point.x={} point.y={} op={}", id.0, pair.a, pair.b, point.x, point.y,
        if op == Op::Get { "Get" } else { "Set" });
}

//@ types::request: req.id, req.key, req.op, req.parts.len(), req.parts[1], n
#[inline(never)]
fn request(req: &Request, n: usize) {
    line!("types::request req.id={} req.key={} req.op={} req.parts.len()={} req.parts[1]={} n={}", req.id, quoted(&req.key),
        if req.op == Op::Get { "Get" } else { "Set" }, req.parts.len(), req.parts[1], n);
}

impl Request {
    //@ types::Request::method: self.id, boxed.id, by
    #[inline(never)]
    fn method(&mut self, boxed: Box<Request>, by: f32) {
        line!("types::Request::method self.id={} boxed.id={} by={}", self.id, boxed.id, by);
        self.id += 1;
    }
}

//~ types::integer: result
#[inline(never)]
pub fn integer(a: i64) -> i64 { std::hint::black_box(a) * 3 }
//~ types::real: result
#[inline(never)]
pub fn real(a: f64) -> f64 { std::hint::black_box(a) / 4.0 }
//~ types::text: result
#[inline(never)]
pub fn text(a: &str) -> &str { std::hint::black_box(&a[1..]) }

fn main() {
    let n = std::env::args().count();
    for i in 0..3 {
        let n = n + i;
        numbers(-(n as i32), 1 << 40 | n as u64, n as f64 + 0.5, n % 2 == 0, 'q', -3);
        let s = "a".repeat(n + 2);
        strings(&s, &format!("text{}", n), s.clone());
        slices(&[n as i32, n as i32 + 1], &if i == 1 { vec![1] } else { vec![7, 8, n as u32] });
        structs(Id(n as u32), Pair { a: -(n as i32), b: n as i64 }, Point { x: n as f64, y: 2.5 }, if i == 1 { Op::Get } else { Op::Set });
        let mut r = Request { id: n as u64, key: format!("key{}", n), op: Op::Get, parts: vec![4, 5], next: None };
        request(&r, n);
        r.method(Box::new(Request { id: 77, key: String::new(), op: Op::Set, parts: vec![], next: None }), 1.5);
        let v = integer(n as i64);
        line!("~types::integer result={}", v);
        let v = real(n as f64);
        line!("~types::real result={}", v);
        let v = text(&s);
        line!("~types::text result={}", quoted(v));
    }
}
