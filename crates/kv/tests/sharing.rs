//! Small facts about leases, namespaces and pages that are shared in part.

use kv::{Namespace, PageSize, PrefixCache, Token};

fn insert(cache: &mut PrefixCache, namespace: &Namespace, tokens: &[Token]) {
    let count = tokens.len() as u32 / cache.page_size().tokens();
    let pages = cache.take(count).expect("there is room");
    let duplicates = cache.insert(namespace, tokens, &pages);
    cache.give_back(&duplicates);
}

#[test]
fn a_leased_prefix_survives_any_eviction() {
    let everybody = Namespace::default();
    let mut cache = PrefixCache::new(8, PageSize::ONE);
    insert(&mut cache, &everybody, &[1, 2, 3, 4]);
    let (lease, pages) = cache.match_prefix(&everybody, &[1, 2, 9]);
    assert_eq!(pages.len(), 2);
    assert_eq!(cache.evict(8), 2);
    assert_eq!(cache.cached_tokens(&everybody, &[1, 2, 3, 4]), 2);
    assert!(cache.take(7).is_none());
    cache.release(lease);
    assert_eq!(cache.take(8).map(|pages| pages.len()), Some(8));
}

#[test]
fn the_least_recently_used_leaf_goes_first_and_from_its_end() {
    let everybody = Namespace::default();
    let mut cache = PrefixCache::new(8, PageSize::ONE);
    insert(&mut cache, &everybody, &[1, 2, 3]);
    insert(&mut cache, &everybody, &[5, 6, 7]);
    let (lease, _) = cache.match_prefix(&everybody, &[1, 2, 3]);
    cache.release(lease);
    cache.evict(2);
    assert_eq!(cache.cached_tokens(&everybody, &[5, 6, 7]), 1);
    assert_eq!(cache.cached_tokens(&everybody, &[1, 2, 3]), 3);
}

#[test]
fn namespaces_share_nothing_and_leave_nothing_behind() {
    let (mine, theirs) = (Namespace::new("mine"), Namespace::new("theirs"));
    let mut cache = PrefixCache::new(8, PageSize::ONE);
    insert(&mut cache, &mine, &[1, 2, 3]);
    assert_eq!(cache.cached_tokens(&theirs, &[1, 2, 3]), 0);
    assert_eq!(cache.cached_tokens(&Namespace::new(""), &[1, 2, 3]), 0);
    insert(&mut cache, &theirs, &[1, 2, 3]);
    assert_eq!(cache.counts().cached, 6);
    cache.evict(6);
    cache.check_integrity([]).expect("intact");
}

#[test]
fn only_whole_pages_match_and_the_page_most_alike_is_found() {
    let everybody = Namespace::default();
    let mut cache = PrefixCache::new(8, PageSize::new(4).expect("not 0"));
    insert(&mut cache, &everybody, &[1, 2, 3, 4, 5, 6, 7, 8]);
    insert(&mut cache, &everybody, &[1, 2, 3, 4, 5, 9, 9, 9]);
    let (lease, pages) = cache.match_prefix(&everybody, &[1, 2, 3, 4, 5, 6, 7, 0, 0]);
    assert_eq!(pages.len(), 1);
    let partial = cache
        .match_partial_page(&lease, &[5, 6, 7, 0, 0])
        .expect("three tokens agree");
    let (whole, both) = cache.match_prefix(&everybody, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((partial.page, partial.tokens), (both[1], 3));
    assert!(cache.match_partial_page(&lease, &[6, 6, 6]).is_none());
    for lease in [partial.lease, whole, lease] {
        cache.release(lease);
    }
    cache.check_integrity([]).expect("intact");
}

#[test]
#[should_panic(expected = "dropped without being released")]
#[cfg(debug_assertions)]
fn a_dropped_lease_is_noticed() {
    let everybody = Namespace::default();
    let mut cache = PrefixCache::new(8, PageSize::ONE);
    insert(&mut cache, &everybody, &[1]);
    let (lease, _) = cache.match_prefix(&everybody, &[1]);
    drop(lease);
}
