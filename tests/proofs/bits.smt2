; What contracts/page.acsl asserts of a key's bits, for every number of 64 bits that is not below 0: Z3 finds none for
; which one of the five lines is wrong. Why3, through which the contracts go, has integers and not their bits.
(set-logic QF_BV)
(declare-const key (_ BitVec 64))
(assert (bvsge key (_ bv0 64)))
(define-fun wrong ((rows (_ BitVec 64)) (shift (_ BitVec 64))) Bool
  (not (and (bvsle (_ bv0 64) (bvand key (bvsub rows (_ bv1 64))))
            (bvslt (bvand key (bvsub rows (_ bv1 64))) rows)
            (= (bvashr key shift) (bvsdiv key rows)))))
(push) (assert (wrong (_ bv16 64) (_ bv4 64))) (check-sat) (pop)
(push) (assert (wrong (_ bv32 64) (_ bv5 64))) (check-sat) (pop)
(push) (assert (wrong (_ bv64 64) (_ bv6 64))) (check-sat) (pop)
(push) (assert (wrong (_ bv128 64) (_ bv7 64))) (check-sat) (pop)
(push) (assert (wrong (_ bv256 64) (_ bv8 64))) (check-sat) (pop)
