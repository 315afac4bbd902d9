//! The cache against a model that stores every prefix by itself.

use std::collections::BTreeMap;

use kv::{Namespace, Page, PageSize, PageTable, PrefixCache, PrefixLease, Token};

const PAGES: u32 = 48;

/// One cached page: the prefix that ends with it is the key.
#[derive(Clone, Debug)]
struct Cached {
    page: Page,
    leases: u32,
    last_used: u64,
}

/// What the radix tree means, without the tree.
#[derive(Default)]
struct Naive {
    prefixes: BTreeMap<(Namespace, Vec<Token>), Cached>,
    clock: u64,
}

impl Naive {
    /// Pages of the longest cached prefix; marks them as used.
    fn find(&mut self, namespace: &Namespace, tokens: &[Token], page_size: usize) -> Vec<Page> {
        self.clock += 1;
        let mut pages = Vec::new();
        for end in (page_size..=tokens.len()).step_by(page_size) {
            let Some(cached) = self
                .prefixes
                .get_mut(&(namespace.clone(), tokens[..end].to_vec()))
            else {
                break;
            };
            cached.last_used = self.clock;
            pages.push(cached.page);
        }
        pages
    }

    /// Adds to the leases of every prefix of `tokens`.
    fn count_lease(&mut self, namespace: &Namespace, tokens: &[Token], page_size: usize, by: i32) {
        for end in (page_size..=tokens.len()).step_by(page_size) {
            let key = (namespace.clone(), tokens[..end].to_vec());
            let cached = self
                .prefixes
                .get_mut(&key)
                .expect("leased prefixes are cached");
            cached.leases = cached
                .leases
                .checked_add_signed(by)
                .expect("leases are counted");
        }
    }

    fn insert(&mut self, namespace: &Namespace, tokens: &[Token], page_size: usize, page: Page) {
        assert_eq!(tokens.len() % page_size, 0);
        let cached = Cached {
            page,
            leases: 0,
            last_used: self.clock,
        };
        let old = self
            .prefixes
            .insert((namespace.clone(), tokens.to_vec()), cached);
        assert!(old.is_none(), "a prefix was inserted twice");
    }

    /// Drops the least recently used prefixes that nothing extends.
    fn evict(&mut self, count: u32) -> u32 {
        for evicted in 0..count {
            let is_leaf = |key: &(Namespace, Vec<Token>)| {
                let longer = |other: &(Namespace, Vec<Token>)| {
                    other.0 == key.0 && other.1.len() > key.1.len() && other.1.starts_with(&key.1)
                };
                !self.prefixes.keys().any(longer)
            };
            let victim = self
                .prefixes
                .iter()
                .filter(|(key, cached)| cached.leases == 0 && is_leaf(key))
                .min_by_key(|(_, cached)| cached.last_used)
                .map(|(key, _)| key.clone());
            let Some(victim) = victim else { return evicted };
            self.prefixes.remove(&victim);
        }
        count
    }
}

/// A sequence as the scheduler would keep it.
struct Sequence {
    namespace: Namespace,
    tokens: Vec<Token>,
    lease: PrefixLease,
    table: PageTable,
}

#[derive(Clone, Debug)]
enum Op {
    Open { namespace: u8, tokens: Vec<Token> },
    Grow { sequence: usize, tokens: Vec<Token> },
    Offer { sequence: usize },
    Close { sequence: usize, keep: bool },
    Evict { count: u32 },
}

/// A small generator: tests must not depend on anybody's random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn tokens(&mut self, most: u64) -> Vec<Token> {
        (0..self.below(most))
            .map(|_| self.below(2) as Token)
            .collect()
    }

    fn op(&mut self) -> Op {
        let sequence = self.below(64) as usize;
        match self.below(15) {
            0..4 => Op::Open {
                namespace: self.below(2) as u8,
                tokens: self.tokens(14),
            },
            4..7 => Op::Grow {
                sequence,
                tokens: self.tokens(5),
            },
            7..10 => Op::Offer { sequence },
            10..14 => Op::Close {
                sequence,
                keep: self.below(2) == 0,
            },
            _ => Op::Evict {
                count: self.below(6) as u32,
            },
        }
    }
}

struct World {
    cache: PrefixCache,
    naive: Naive,
    sequences: Vec<Sequence>,
    page_size: usize,
}

impl World {
    fn new(page_size: u32) -> Self {
        Self {
            cache: PrefixCache::new(PAGES, PageSize::new(page_size).expect("not 0")),
            naive: Naive::default(),
            sequences: Vec::new(),
            page_size: page_size as usize,
        }
    }

    fn apply(&mut self, op: Op) {
        let count = self.sequences.len();
        let pick = |sequence: usize| (count > 0).then(|| sequence % count);
        match op {
            Op::Open { namespace, tokens } => self.open(namespace, &tokens),
            Op::Grow { sequence, tokens } => {
                if let Some(sequence) = pick(sequence) {
                    self.grow(sequence, &tokens);
                }
            }
            Op::Offer { sequence } => {
                if let Some(sequence) = pick(sequence) {
                    self.offer(sequence);
                }
            }
            Op::Close { sequence, keep } => {
                if let Some(sequence) = pick(sequence) {
                    self.close(sequence, keep);
                }
            }
            Op::Evict { count } => {
                assert_eq!(self.cache.evict(count), self.naive.evict(count));
            }
        }
        self.check();
    }

    fn open(&mut self, namespace: u8, tokens: &[Token]) {
        let namespace = Namespace::new(if namespace == 0 { "" } else { "other" });
        let peeked = self.cache.cached_tokens(&namespace, tokens);
        let (lease, pages) = self.cache.match_prefix(&namespace, tokens);
        assert_eq!(pages, self.naive.find(&namespace, tokens, self.page_size));
        let cached = pages.len() * self.page_size;
        assert_eq!(peeked as usize, cached);
        self.naive
            .count_lease(&namespace, &tokens[..cached], self.page_size, 1);
        let table = PageTable::new(self.cache.page_size(), pages);
        self.sequences.push(Sequence {
            namespace,
            tokens: Vec::new(),
            lease,
            table,
        });
        let last = self.sequences.len() - 1;
        self.sequences[last].tokens = tokens[..cached].to_vec();
        self.grow(last, &tokens[cached..]);
    }

    /// Appends tokens as far as pages can be had for them.
    fn grow(&mut self, index: usize, tokens: &[Token]) {
        let sequence = &mut self.sequences[index];
        let missing = sequence
            .table
            .missing_for((sequence.tokens.len() + tokens.len()) as u32);
        let free = self.cache.counts().free;
        let available = self.cache.counts().available();
        match self.cache.take(missing) {
            Some(pages) => {
                self.naive.evict(missing.saturating_sub(free));
                sequence.table.append(&pages);
                sequence.tokens.extend_from_slice(tokens);
            }
            None => assert!(missing > available),
        }
    }

    fn offer(&mut self, index: usize) {
        let sequence = &mut self.sequences[index];
        let shared = sequence.table.shared() as usize;
        let full = sequence.tokens.len() / self.page_size;
        let tokens = &sequence.tokens[shared * self.page_size..full * self.page_size];
        let own = sequence.table.pages()[shared..full].to_vec();
        let known = self.cache.extend(&mut sequence.lease, tokens, &own);
        let history = &sequence.tokens[..full * self.page_size];
        let expected = self
            .naive
            .find(&sequence.namespace, history, self.page_size);
        assert_eq!(known, expected[shared..]);
        for page in expected.len()..full {
            let prefix = &history[..(page + 1) * self.page_size];
            let number = sequence.table.pages()[page];
            self.naive
                .insert(&sequence.namespace, prefix, self.page_size, number);
        }
        self.naive
            .count_lease(&sequence.namespace, history, self.page_size, 1);
        let before = &history[..shared * self.page_size];
        self.naive
            .count_lease(&sequence.namespace, before, self.page_size, -1);
        let duplicates = self.sequences[index]
            .table
            .share((full - shared) as u32, &known);
        self.cache.give_back(&duplicates);
    }

    fn close(&mut self, index: usize, keep: bool) {
        if keep {
            self.offer(index);
        }
        let sequence = self.sequences.swap_remove(index);
        let shared = sequence.table.shared() as usize * self.page_size;
        let leased = &sequence.tokens[..shared];
        self.naive
            .count_lease(&sequence.namespace, leased, self.page_size, -1);
        self.cache.release(sequence.lease);
        self.cache.give_back(&sequence.table.into_private());
    }

    fn check(&self) {
        let leased = self
            .sequences
            .iter()
            .flat_map(|sequence| sequence.table.private());
        self.cache.check_integrity(leased.copied()).expect("intact");
        let counts = self.cache.counts();
        assert_eq!(counts.free + counts.leased + counts.cached, PAGES);
        assert_eq!(counts.cached as usize, self.naive.prefixes.len());
        let unleased = self
            .naive
            .prefixes
            .values()
            .filter(|cached| cached.leases == 0)
            .count();
        assert_eq!(counts.evictable as usize, unleased);
    }

    fn end(mut self) {
        while !self.sequences.is_empty() {
            self.close(0, true);
        }
        let cached = self.cache.counts().cached;
        assert_eq!(self.cache.evict(u32::MAX), cached);
        self.cache.check_integrity([]).expect("intact");
        assert_eq!(self.cache.counts().free, PAGES);
    }
}

#[test]
fn any_order_of_operations_agrees_with_the_naive_cache() {
    for seed in 0..250 {
        let mut random = Random(seed);
        let mut world = World::new(1 + (seed % 3) as u32);
        for _ in 0..400 {
            world.apply(random.op());
        }
        world.end();
    }
}
