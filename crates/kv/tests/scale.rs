//! Prompts and trees of the size that is served.

use kv::{Namespace, Page, PageSize, PrefixCache, Token};

fn prompt(number: u32, len: u32) -> Vec<Token> {
    // the first half is shared by ten prompts each
    (0..len)
        .map(|i| {
            if i < len / 2 {
                number / 10 * 7919 + i
            } else {
                number * 104_729 + i
            }
        })
        .collect()
}

#[test]
fn a_million_tokens_are_cached_found_and_evicted_piecemeal() {
    const PROMPTS: u32 = 1000;
    const LEN: u32 = 1000;
    let everybody = Namespace::default();
    let mut cache = PrefixCache::new(PROMPTS * LEN, PageSize::ONE);
    let mut duplicates = 0;
    for number in 0..PROMPTS {
        let pages = cache.take(LEN).expect("the pool holds all prompts");
        let returned = cache.insert(&everybody, &prompt(number, LEN), &pages);
        duplicates += returned.len() as u32;
        cache.give_back(&returned);
    }
    assert_eq!(duplicates, PROMPTS / 10 * 9 * LEN / 2);
    for number in 0..PROMPTS {
        let (lease, pages) = cache.match_prefix(&everybody, &prompt(number, LEN));
        assert_eq!(pages.len() as u32, LEN);
        cache.release(lease);
    }
    cache.check_integrity([]).expect("intact");
    let cached = cache.counts().cached;
    assert_eq!(cached, PROMPTS * LEN - duplicates);
    let mut evicted = 0;
    while evicted < cached {
        evicted += cache.evict(64);
    }
    assert_eq!(cache.counts().free, PROMPTS * LEN);
}

#[test]
fn a_prompt_of_a_hundred_thousand_tokens_grows_chunk_by_chunk() {
    const LEN: usize = 100_000;
    let everybody = Namespace::default();
    let tokens: Vec<Token> = (0..LEN as u32).collect();
    let mut cache = PrefixCache::new(LEN as u32, PageSize::ONE);
    let (mut lease, _) = cache.match_prefix(&everybody, &tokens);
    let mut held: Vec<Page> = Vec::new();
    for chunk in tokens.chunks(512) {
        let pages = cache
            .take(chunk.len() as u32)
            .expect("the pool holds the prompt");
        assert!(cache.extend(&mut lease, chunk, &pages).is_empty());
        held.extend(pages);
    }
    let (again, pages) = cache.match_prefix(&everybody, &tokens);
    assert_eq!(pages, held);
    cache.release(again);
    assert_eq!(cache.evict(1), 0);
    cache.release(lease);
    assert_eq!(cache.evict(10), 10);
    assert_eq!(cache.cached_tokens(&everybody, &tokens) as usize, LEN - 10);
}
