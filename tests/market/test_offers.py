"""The offer book: row numbers are identities, weeks of change are true, lots open and close."""

from __future__ import annotations

import numpy as np
import pytest

from market.offers import CHANNELS, OfferBook
from market.units import TERM_NAMES, Term

SKUS, TERMS = 3, len(TERM_NAMES)


@pytest.fixture
def book() -> OfferBook:
    """Two sellers and a desk, three SKUs; prices tell their own address: supplier, SKU, term."""
    book = OfferBook(np.array([0, 0, 2], np.int8), SKUS)
    for supplier in range(3):
        book.set_prices(supplier, address(supplier), week=0)
    return book


def address(supplier: int) -> np.ndarray:
    return 100.0 * supplier + 10.0 * np.arange(SKUS)[:, None] + np.arange(TERMS)[None, :] + 1.0


def test_a_row_number_names_supplier_sku_and_term(book):
    assert len(book) == 3 * SKUS * TERMS
    for supplier in range(3):
        for sku in range(SKUS):
            for term in Term:
                offer = book[book.row(supplier, sku, term)]
                assert (offer.supplier, offer.sku, offer.term) == (supplier, sku, TERM_NAMES[term])
                assert offer.price_usd_per_gpu_hour == 100 * supplier + 10 * sku + term + 1
                assert offer.row == book.row(supplier, sku, term)


def test_rows_count_from_either_end_and_end(book):
    assert book[-1] == book[len(book) - 1]
    with pytest.raises(IndexError):
        book[len(book)]
    assert len(list(book)) == len(book)


def test_new_suppliers_get_new_rows_and_old_rows_keep_their_numbers(book):
    before = list(book)
    book.append(np.array([1, 0], np.int8))
    assert list(book)[: len(before)] == before
    assert len(book) == 5 * SKUS * TERMS
    assert {offer.channel for offer in list(book)[len(before) :]} == {"pool", "direct"}
    assert np.isnan(book.price_usd[3:]).all()
    assert not book.open_gpus[3:].any()


def test_channels_have_names(book):
    assert [book[book.row(supplier, 0, 0)].channel for supplier in range(3)] == ["direct", "direct", CHANNELS[2]]


def test_the_week_of_change_is_that_of_the_last_move_of_each_price(book):
    prices = address(1)
    prices[2, Term.SPOT] = 7.0
    book.set_prices(1, prices, week=5)
    moved = book.last_change_week[1] == 5
    assert moved.sum() == 1
    assert moved[2, Term.SPOT]
    assert (book.last_change_week[0] == 0).all()
    book.set_prices(1, prices, week=6)
    assert not (book.last_change_week == 6).any()


def test_withdrawing_and_returning_are_changes_and_staying_away_is_none(book):
    prices = address(0)
    prices[0] = np.nan
    for week, withdrawn, changed in ((1, True, True), (2, True, False), (3, False, True)):
        book.set_prices(0, prices if withdrawn else address(0), week)
        assert (book.last_change_week[0, 0] == week).all() == changed
    assert (book.last_change_week[0, 1:] == 0).all()


def test_open_gpus_are_what_is_listed_less_what_leases_hold(book):
    listed = np.array([[10.0, 5.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 4.0]])
    book.open_week(listed, np.array([[4.0, 5.0, 0.0], [0.0, 2.0 + 1e-13, 0.0], [0.0, 0.0, 0.0]]))
    assert book.open_gpus.tolist() == [[6.0, 0.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 4.0]]
    assert book.listed_gpus.tolist() == listed.tolist()
    listed[:] = 0.0
    assert book.listed_gpus.any()  # the book keeps its own numbers
    offer = book[book.row(0, 0, Term.ONE_YEAR)]
    assert (offer.open_gpus, offer.listed_gpus) == (6.0, 10.0)


def test_all_terms_of_a_lot_share_its_gpus(book):
    book.open_week(np.full((3, SKUS), 9.0), np.full((3, SKUS), 2.0))
    assert {book[book.row(1, 1, term)].open_gpus for term in Term} == {7.0}


def test_a_book_may_start_empty():
    book = OfferBook(np.zeros(0, np.int8), SKUS)
    assert len(book) == 0
    assert list(book) == []
