------------------------------- MODULE Spine -------------------------------
(***************************************************************************)
(* The way of a row: written to a chunk in Postgres, copied or streamed    *)
(* into the lake's append-only history, proven there, and only then let go *)
(* from Postgres.  Crashes may happen between any two steps.               *)
(*                                                                         *)
(* Every rule of the protocol is a boolean constant.  With all of them     *)
(* TRUE the invariants at the end hold.  With one FALSE TLC shows how a    *)
(* row is lost, doubled or comes back; README.md has the table.  One rule, *)
(* ReceiptWaits, is a second line of defence: it counts once another one   *)
(* is broken.                                                              *)
(*                                                                         *)
(* An LSN is an index into `log`: one record for each commit, each         *)
(* position taken by a copy and each drop.  A tuple's version is the LSN   *)
(* of the commit that inserted it (ctid and xmin in the real system); what *)
(* the lake compares is only the row's value, so a row that is deleted and *)
(* inserted again is the same value in a new version.  An UPDATE is a      *)
(* delete and an insert in one transaction.                                *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Writers,        \* sessions of the application; each runs one transaction after another
    Rows,           \* possible rows (values): strings
    Chunks,         \* chunks (time partitions) of one table: strings
    ChunkOf,        \* [Rows -> Chunks]: one of the definitions below
    InitRows,       \* rows that are there before anything else happens
    CopyChunks,     \* chunks that are copied, and chunks that may be dropped (these two
    GateChunks,     \* only bound the state space)
    MaxOps,         \* changes in one transaction
    MaxTx,          \* committed transactions
    MaxTruncates,   \* committed TRUNCATEs
    MaxCopies,      \* copies begun
    MaxCrashes,     \* crashes of the node or of Postgres
    Async           \* writers use synchronous_commit = off

\* The rules.
CONSTANTS
    \* the gate
    RecheckFingerprint,   \* at the drop the fingerprint is compared again, under the lock
    FreshSnapshot,        \* ... with a snapshot taken after the lock: READ COMMITTED
    ReceiptNeedsCopy,     \* a receipt is made only of a chunk whose copy is in the lake
    ReceiptWaits,         \* a receipt waits until progress has reached F
    ReceiptCompares,      \* a receipt compares the contents
    CutAtReceipt,         \* a dropped chunk is read at its receipt's position until the feed has
                          \* passed the drop
    \* the feed
    MarkerCheck,          \* before a lake commit the newest marker in the lake is read
    SkipByPosition,       \* ... and what lies at or below it is left out, not only an equal batch
    ProgressAfterCommit,  \* progress is recorded after the lake commit
    SlotLast,             \* the slot is advanced after commit and record
    \* the copy
    WaitForOpen,          \* the copy waits for the transactions open when the table joined
    LockForPosition,      \* snapshot and position under a momentary SHARE lock
    SupersedeByPosition,  \* copied rows supersede what lies at or below their position
    FreshPosition,        \* each copy makes its position by writing a WAL record of its own
    FlushBeforeCopy,      \* WAL is flushed past the copy's position before the copy is committed
    \* reset
    TruncateHeard,        \* TRUNCATE of a chunk leaves a record in the stream
    ResetOnlyResident     \* a reset names resident chunks, never what lives only in the lake

VARIABLES
    log,       \* WAL, as decoding sees it: sequence of records
    durable,   \* LSN up to which WAL is flushed
    hot,       \* [Rows -> version visible to a new snapshot, or Absent]
    tx,        \* [Writers -> the transaction each has open]
    joined,    \* the table is in the publication
    waitFor,   \* writers whose transaction was open when it joined
    slot,      \* confirmed position of the replication slot
    progress,  \* the feed's progress as recorded in Postgres
    batch,     \* the feed's batch in hand (volatile)
    copy,      \* the copy in hand (volatile)
    snaps,     \* copies begun
    applied,   \* lake: how many times each log record was appended
    marker,    \* lake: end position in the newest commit of the feed
    copies,    \* lake: copies committed, in order
    rc,        \* the receipt in the making (volatile)
    receipt,   \* receipts stored in Postgres
    dr,        \* the drop under way (a database transaction)
    dropped,   \* [Chunks -> LSN of the drop, 0 while resident]
    crashes

pg    == <<log, durable, hot, tx, joined, waitFor>>
feed  == <<slot, progress, batch>>
cpy   == <<copy, snaps>>
lake  == <<applied, marker, copies>>
gate  == <<rc, receipt, dr, dropped>>
vars  == <<pg, feed, cpy, lake, gate, crashes>>

None   == [none |-> TRUE]
Absent == -1
Idle   == [st |-> "idle", ops |-> {}, rst |-> {}, named |-> {}, heard |-> FALSE,
           old |-> FALSE, lsn |-> 0]
MaxLen == MaxTx + MaxTruncates + MaxCopies + Cardinality(GateChunks)

\* Choices for ChunkOf.
InOneChunk  == [r \in Rows |-> "c1"]
InTwoChunks == [r \in Rows |-> IF r = "r2" THEN "c2" ELSE "c1"]

Max(S)      == CHOOSE x \in S : \A y \in S : y <= x
Larger(a, b) == IF a > b THEN a ELSE b
RowsOf(c)   == {r \in Rows : ChunkOf[r] = c}
Resident    == {c \in Chunks : dropped[c] = 0}

-----------------------------------------------------------------------------
(* What really happened, read off the log. *)

Plus(rec)  == {o.row : o \in {p \in rec.ops : p.sign = 1}}
Minus(rec) == {o.row : o \in {p \in rec.ops : p.sign = -1}}
After(rec, S) == (S \ (Minus(rec) \cup {r \in Rows : ChunkOf[r] \in rec.rst})) \cup Plus(rec)

\* Rows live after the first p records, leaving out those in `skip`.
RECURSIVE LiveSkipping(_, _)
LiveSkipping(p, skip) ==
    IF p = 0 THEN InitRows
    ELSE IF p \in skip THEN LiveSkipping(p - 1, skip)
    ELSE After(log[p], LiveSkipping(p - 1, skip))

Live(p)   == LiveSkipping(IF p < Len(log) THEN p ELSE Len(log), {})
Invisible == {tx[w].lsn : w \in {v \in Writers : tx[v].st = "logged"}}
Truth     == LiveSkipping(Len(log), Invisible)   \* what a new snapshot has to see

\* Version of each row after a recovery that finds the records of l.
RECURSIVE Replay(_, _)
Replay(l, p) ==
    IF p = 0 THEN [r \in Rows |-> IF r \in InitRows THEN 0 ELSE Absent]
    ELSE LET prev == Replay(l, p - 1) IN
         [r \in Rows |-> IF r \in Plus(l[p]) THEN p
                         ELSE IF r \in Minus(l[p]) \/ ChunkOf[r] \in l[p].rst THEN Absent
                         ELSE prev[r]]

-----------------------------------------------------------------------------
(* The lake, folded. *)

Heard(rec)    == {o \in rec.ops : o.str}
Relevant(rec) == Heard(rec) # {} \/ (rec.named # {} /\ rec.heard)

Sign(r, rec) == IF [row |-> r, sign |-> 1, str |-> TRUE] \in rec.ops THEN 1
                ELSE IF [row |-> r, sign |-> -1, str |-> TRUE] \in rec.ops THEN -1 ELSE 0

\* Sum of the signed changes of row r at positions l, l - 1, ..., base + 1.
RECURSIVE Streamed(_, _, _)
Streamed(r, l, base) == IF l <= base THEN 0
                        ELSE applied[l] * Sign(r, log[l]) + Streamed(r, l - 1, base)

CopiesOf(c, upto) == {i \in DOMAIN copies : copies[i].c = c /\ copies[i].L <= upto}

\* The position below which nothing of chunk c counts any more: its newest reset or copy.
Base(c, upto) ==
    Max({0} \cup {l \in DOMAIN log : /\ l <= upto /\ applied[l] > 0
                                     /\ log[l].heard /\ c \in log[l].named}
            \cup IF SupersedeByPosition THEN {copies[i].L : i \in CopiesOf(c, upto)} ELSE {})

\* Signed count of row r in the history, looking only at positions up to `upto`.
Count(r, upto) ==
    LET base == Base(ChunkOf[r], upto)
    IN Streamed(r, IF upto < Len(log) THEN upto ELSE Len(log), base)
       + Cardinality({i \in CopiesOf(ChunkOf[r], upto) :
                        copies[i].L >= base /\ r \in copies[i].rows})

All == MaxLen + 1

CopiedAt(c) == {copies[i].L : i \in {j \in DOMAIN copies : copies[j].c = c}}

\* The position at which the lake's content of chunk c is judged by the invariants.
LakePos(c) == Max({marker, progress} \cup CopiedAt(c))

\* What a read across the tiers finds of row r.
Union(r) ==
    LET c == ChunkOf[r] IN
    IF dropped[c] = 0 THEN (IF hot[r] # Absent THEN 1 ELSE 0)
    ELSE Count(r, IF CutAtReceipt /\ progress < dropped[c] THEN receipt[c].pos ELSE All)

-----------------------------------------------------------------------------
Init ==
    /\ log = <<>> /\ durable = 0
    /\ hot = [r \in Rows |-> IF r \in InitRows THEN 0 ELSE Absent]
    /\ tx = [w \in Writers |-> Idle]
    /\ joined = FALSE /\ waitFor = {}
    /\ slot = 0 /\ progress = 0 /\ batch = None
    /\ copy = None /\ snaps = 0
    /\ applied = [l \in 1..MaxLen |-> 0] /\ marker = 0 /\ copies = <<>>
    /\ rc = None /\ receipt = [c \in Chunks |-> None] /\ dr = None
    /\ dropped = [c \in Chunks |-> 0]
    /\ crashes = 0

Append1(rec) == /\ log' = Append(log, rec)
                /\ durable' = IF Async THEN durable ELSE Len(log) + 1

Record(k)  == [k |-> k, ops |-> {}, rst |-> {}, named |-> {}, heard |-> FALSE]
CountOf(k) == Cardinality({l \in DOMAIN log : log[l].k = k})

-----------------------------------------------------------------------------
(* Writers.  Locks last until the transaction is visible to others. *)

Touches(w)  == {ChunkOf[o.row] : o \in tx[w].ops} \cup tx[w].rst
Exclusive   == UNION {tx[w].rst : w \in Writers}
ShareLocked == IF dr # None /\ dr.pc = "locked" THEN {dr.c} ELSE {}
WrittenBy(ws) == UNION {Touches(w) : w \in ws}

\* A transaction that has an xid from a write elsewhere and has not come to this table yet.
Begin(w) ==
    /\ ~joined /\ tx[w].st = "idle" /\ CountOf("tx") < MaxTx
    /\ tx' = [tx EXCEPT ![w] = [Idle EXCEPT !.st = "open"]]
    /\ UNCHANGED <<log, durable, hot, joined, waitFor, feed, cpy, lake, gate, crashes>>

\* What was written before the table joined is never streamed.  What a transaction that was open
\* then writes afterwards may be streamed or not: it depends on the server's minor release.
Write(w, r, sign) ==
    /\ CountOf("tx") < MaxTx
    /\ tx[w].st \in {"idle", "open"} /\ tx[w].rst = {} /\ Cardinality(tx[w].ops) < MaxOps
    /\ ChunkOf[r] \in Resident \ (Exclusive \cup ShareLocked)
    /\ \A v \in Writers : \A o \in tx[v].ops : o.row # r
    /\ IF sign = 1 THEN hot[r] = Absent ELSE hot[r] # Absent
    /\ \E str \in IF ~joined THEN {FALSE} ELSE IF tx[w].old THEN {TRUE, FALSE} ELSE {TRUE} :
         tx' = [tx EXCEPT ![w].st = "open",
                          ![w].ops = @ \cup {[row |-> r, sign |-> sign, str |-> str]}]
    /\ UNCHANGED <<log, durable, hot, joined, waitFor, feed, cpy, lake, gate, crashes>>

\* TRUNCATE of one resident chunk, or of the root: all that are resident, which may be none.
\* S is emptied; `named` is what the record in the stream resets.
Truncate(w, S, named) ==
    /\ tx[w].st = "idle" /\ named # {}
    /\ CountOf("reset") + Cardinality({v \in Writers : tx[v].named # {}}) < MaxTruncates
    /\ S \cap (WrittenBy(Writers) \cup ShareLocked) = {}
    /\ tx' = [tx EXCEPT ![w] = [Idle EXCEPT !.st = "open", !.rst = S, !.named = named,
                                            !.heard = joined /\ TruncateHeard]]
    /\ UNCHANGED <<log, durable, hot, joined, waitFor, feed, cpy, lake, gate, crashes>>
TruncateChunk(w) == \E c \in Resident : Truncate(w, {c}, {c})
TruncateRoot(w)  == Truncate(w, Resident, IF ResetOnlyResident THEN Resident ELSE Chunks)

\* The commit record is in the WAL: decodable from here on, not yet visible to new snapshots.
\* What was committed before the table joined is in InitRows.
Commit(w) ==
    /\ joined /\ tx[w].st = "open" /\ (tx[w].ops # {} \/ tx[w].named # {})
    /\ tx[w].ops # {} => CountOf("tx") < MaxTx
    /\ Append1([k |-> IF tx[w].ops # {} THEN "tx" ELSE "reset", ops |-> tx[w].ops,
                rst |-> tx[w].rst, named |-> tx[w].named, heard |-> tx[w].heard])
    /\ tx' = [tx EXCEPT ![w].st = "logged", ![w].lsn = Len(log) + 1]
    /\ UNCHANGED <<hot, joined, waitFor, feed, cpy, lake, gate, crashes>>

Visible(w) ==
    /\ tx[w].st = "logged"
    /\ hot' = [r \in Rows |-> IF r \in Plus(tx[w]) THEN tx[w].lsn
                              ELSE IF r \in Minus(tx[w]) \/ ChunkOf[r] \in tx[w].rst THEN Absent
                              ELSE hot[r]]
    /\ tx' = [tx EXCEPT ![w] = Idle]
    /\ waitFor' = waitFor \ {w}
    /\ UNCHANGED <<log, durable, joined, feed, cpy, lake, gate, crashes>>

Rollback(w) ==
    /\ tx[w].st = "open"
    /\ tx' = [tx EXCEPT ![w] = Idle]
    /\ waitFor' = waitFor \ {w}
    /\ UNCHANGED <<log, durable, hot, joined, feed, cpy, lake, gate, crashes>>

Flush ==
    /\ durable < Len(log)
    /\ durable' = Len(log)
    /\ UNCHANGED <<log, hot, tx, joined, waitFor, feed, cpy, lake, gate, crashes>>

-----------------------------------------------------------------------------
(* Joining, and the copy of a chunk. *)

Join ==
    /\ ~joined /\ joined' = TRUE
    /\ waitFor' = {w \in Writers : tx[w].st # "idle"}
    /\ tx' = [w \in Writers |-> IF tx[w].st = "open" THEN [tx[w] EXCEPT !.old = TRUE] ELSE tx[w]]
    /\ UNCHANGED <<log, durable, hot, feed, cpy, lake, gate, crashes>>

\* Snapshot and position L at one moment.  The SHARE lock waits for whoever has written to the
\* chunk and is not yet visible; a TRUNCATE shuts the reader out in any case.
CopySnapshot(c) ==
    /\ joined /\ copy = None /\ snaps < MaxCopies /\ dropped[c] = 0
    /\ c \notin Exclusive
    /\ WaitForOpen => waitFor = {}
    /\ LockForPosition => c \notin WrittenBy(Writers)
    /\ log' = IF FreshPosition THEN Append(log, Record("mark")) ELSE log
    /\ durable' = IF FlushBeforeCopy \/ ~Async THEN Len(log') ELSE durable
    /\ copy' = [c |-> c, L |-> Len(log'), rows |-> {r \in RowsOf(c) : hot[r] # Absent}]
    /\ snaps' = snaps + 1
    /\ UNCHANGED <<hot, tx, joined, waitFor, feed, lake, gate, crashes>>

\* One Iceberg commit.  Nothing about it is remembered elsewhere: after a crash on either side of
\* this step the chunk may be copied again.
CopyCommit ==
    /\ copy # None
    /\ copies' = Append(copies, copy)
    /\ copy' = None
    /\ UNCHANGED <<pg, feed, snaps, applied, marker, gate, crashes>>

-----------------------------------------------------------------------------
(* The feed. *)

\* A bounded peek, from wherever the slot stands to any flushed end.
Peek ==
    /\ joined /\ batch = None
    /\ \E to \in (slot + 1)..durable : batch' = [from |-> slot, to |-> to, done |-> {}]
    /\ UNCHANGED <<pg, slot, progress, cpy, lake, gate, crashes>>

\* A batch is over when its three steps are done.
Did(step) == batch' = IF batch.done \cup {step} = {"lake", "record", "slot"} THEN None
                      ELSE [batch EXCEPT !.done = @ \cup {step}]

InBatch  == {l \in (batch.from + 1)..batch.to : l <= Len(log) /\ Relevant(log[l])}
ToAppend == IF ~MarkerCheck THEN InBatch
            ELSE IF SkipByPosition THEN {l \in InBatch : l > marker}
            ELSE IF marker = batch.to THEN {} ELSE InBatch

\* Over WAL that has nothing for this table progress moves without an Iceberg commit.
FeedCommit ==
    /\ batch # None /\ "lake" \notin batch.done
    /\ applied' = [l \in 1..MaxLen |-> IF l \in ToAppend /\ applied[l] < 2 THEN applied[l] + 1
                                       ELSE applied[l]]
    /\ marker' = IF ToAppend = {} THEN marker ELSE Larger(marker, batch.to)
    /\ Did("lake")
    /\ UNCHANGED <<pg, slot, progress, cpy, copies, gate, crashes>>

FeedRecord ==
    /\ batch # None /\ "record" \notin batch.done
    /\ ProgressAfterCommit => "lake" \in batch.done
    /\ progress' = Larger(progress, batch.to)
    /\ Did("record")
    /\ UNCHANGED <<pg, slot, cpy, lake, gate, crashes>>

FeedAdvance ==
    /\ batch # None /\ "slot" \notin batch.done
    /\ SlotLast => {"lake", "record"} \subseteq batch.done
    /\ slot' = Larger(slot, batch.to)
    /\ Did("slot")
    /\ UNCHANGED <<pg, progress, cpy, lake, gate, crashes>>

-----------------------------------------------------------------------------
(* The gate. *)

Fingerprint(c) == [r \in RowsOf(c) |-> hot[r]]

\* Snapshot, fingerprint and F at one moment: in the real system F is read later, which only
\* makes it larger.  A receipt that still fits is not made again; one in the making that does not
\* fit any more is given up.
ReceiptSnapshot(c) ==
    /\ joined /\ dropped[c] = 0 /\ c \notin Exclusive
    /\ IF rc = None THEN TRUE ELSE rc.c # c \/ rc.fp # Fingerprint(c)
    /\ IF receipt[c] = None THEN TRUE ELSE receipt[c].fp # Fingerprint(c)
    /\ rc' = [c |-> c, fp |-> Fingerprint(c), F |-> Len(log)]
    /\ UNCHANGED <<pg, feed, cpy, lake, receipt, dr, dropped, crashes>>

SameContent(c, fp) == \A r \in RowsOf(c) : Count(r, All) = IF fp[r] # Absent THEN 1 ELSE 0

\* The receipt keeps the position of the very lake snapshot that it compared.
ReceiptStore ==
    /\ rc # None /\ dropped[rc.c] = 0
    /\ ReceiptWaits => progress >= rc.F
    /\ ReceiptCompares => SameContent(rc.c, rc.fp)
    /\ ReceiptNeedsCopy => CopiedAt(rc.c) # {}
    /\ receipt' = [receipt EXCEPT ![rc.c] = [fp |-> rc.fp,
                                              pos |-> Max({marker} \cup CopiedAt(rc.c))]]
    /\ rc' = None
    /\ UNCHANGED <<pg, feed, cpy, lake, dr, dropped, crashes>>

\* The dropping transaction begins.  Under REPEATABLE READ this is the snapshot it keeps.
DropBegin(c) ==
    /\ receipt[c] # None /\ dropped[c] = 0 /\ dr = None
    /\ dr' = [c |-> c, pc |-> "begun", snap |-> IF FreshSnapshot THEN None ELSE Fingerprint(c)]
    /\ UNCHANGED <<pg, feed, cpy, lake, rc, receipt, dropped, crashes>>

\* The SHARE lock waits for everyone who has written to the chunk.
DropLock ==
    /\ dr # None /\ dr.pc = "begun" /\ dr.c \notin WrittenBy(Writers)
    /\ dr' = [dr EXCEPT !.pc = "locked"]
    /\ UNCHANGED <<pg, feed, cpy, lake, rc, receipt, dropped, crashes>>

\* Under the lock nobody can change the chunk, so check and drop are one step.
DropFinish ==
    /\ dr # None /\ dr.pc = "locked"
    /\ LET c == dr.c
           seen == IF FreshSnapshot THEN Fingerprint(c) ELSE dr.snap IN
       IF receipt[c] # None /\ (RecheckFingerprint => seen = receipt[c].fp)
       THEN /\ log' = Append(log, Record("drop"))
            /\ durable' = Len(log')
            /\ dropped' = [dropped EXCEPT ![c] = Len(log')]
            /\ hot' = [r \in Rows |-> IF ChunkOf[r] = c THEN Absent ELSE hot[r]]
            /\ rc' = IF rc # None /\ rc.c = c THEN None ELSE rc
            /\ UNCHANGED receipt
       ELSE /\ receipt' = [receipt EXCEPT ![c] = None]
            /\ UNCHANGED <<log, durable, dropped, hot, rc>>
    /\ dr' = None
    /\ UNCHANGED <<tx, joined, waitFor, feed, cpy, lake, crashes>>

-----------------------------------------------------------------------------
(* Crashes. *)

\* The node that carries feed, copy and gate dies; Postgres lives and rolls its transactions back.
NodeCrash ==
    /\ crashes < MaxCrashes /\ crashes' = crashes + 1
    /\ \E x \in {batch, copy, rc, dr} : x # None
    /\ batch' = None /\ copy' = None /\ rc' = None /\ dr' = None
    /\ UNCHANGED <<pg, slot, progress, snaps, lake, receipt, dropped>>

\* Postgres dies.  Commits that were not flushed never happened, open transactions are gone, the
\* slot falls back to some older position.  A batch or copy that the node holds lives on.
PgCrash ==
    /\ crashes < MaxCrashes /\ crashes' = crashes + 1
    /\ log' = SubSeq(log, 1, durable)
    /\ LET all == Replay(log', durable) IN
       hot' = [r \in Rows |-> IF dropped[ChunkOf[r]] # 0 THEN Absent ELSE all[r]]
    /\ tx' = [w \in Writers |-> Idle]
    /\ waitFor' = {}
    /\ \E s \in 0..slot : slot' = s
    /\ rc' = None /\ dr' = None
    /\ UNCHANGED <<durable, joined, progress, batch, cpy, lake, receipt, dropped>>

-----------------------------------------------------------------------------
Next ==
    \/ \E w \in Writers :
         \/ Begin(w) \/ Commit(w) \/ Visible(w) \/ Rollback(w)
         \/ \E r \in Rows, sign \in {1, -1} : Write(w, r, sign)
         \/ TruncateChunk(w) \/ TruncateRoot(w)
    \/ Flush \/ Join
    \/ \E c \in CopyChunks : CopySnapshot(c)
    \/ \E c \in GateChunks : ReceiptSnapshot(c) \/ DropBegin(c)
    \/ CopyCommit
    \/ Peek \/ FeedCommit \/ FeedRecord \/ FeedAdvance
    \/ ReceiptStore \/ DropLock \/ DropFinish
    \/ NodeCrash \/ PgCrash

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Writers)

-----------------------------------------------------------------------------
(* What must hold. *)

Op == [row : Rows, sign : {1, -1}, str : BOOLEAN]

TypeOK ==
    /\ Len(log) <= MaxLen
    /\ \A l \in DOMAIN log : /\ log[l].k \in {"tx", "reset", "mark", "drop"}
                             /\ log[l].ops \subseteq Op
                             /\ log[l].rst \subseteq Chunks /\ log[l].named \subseteq Chunks
                             /\ log[l].heard \in BOOLEAN
    /\ durable \in 0..Len(log)
    /\ hot \in [Rows -> Absent..MaxLen]
    /\ \A w \in Writers : /\ tx[w].st \in {"idle", "open", "logged"}
                          /\ tx[w].ops \subseteq Op
                          /\ (tx[w].st = "logged") <=> (tx[w].lsn # 0)
    /\ joined \in BOOLEAN /\ waitFor \subseteq Writers
    /\ slot \in 0..MaxLen /\ progress \in 0..MaxLen /\ marker \in 0..MaxLen
    /\ batch # None => batch.from < batch.to /\ batch.done \subseteq {"lake", "record", "slot"}
    /\ copy # None => copy.c \in CopyChunks /\ copy.rows \subseteq RowsOf(copy.c)
    /\ applied \in [1..MaxLen -> 0..2]
    /\ Len(copies) <= MaxCopies /\ snaps \in 0..MaxCopies
    /\ rc # None => rc.c \in GateChunks
    /\ dr # None => dr.c \in GateChunks /\ dr.pc \in {"begun", "locked"}
    /\ dropped \in [Chunks -> 0..MaxLen]
    /\ crashes \in 0..MaxCrashes

\* The hot tier shows what was committed: a check of the model itself.
HotExact == {r \in Rows : hot[r] # Absent} = {r \in Truth : dropped[ChunkOf[r]] = 0}

\* The read across the tiers: each live row is there ...
NothingLost == \A r \in Truth : Union(r) >= 1
\* ... once ...
NothingDoubled == \A r \in Truth : Union(r) <= 1
\* ... and no other row is, nor is a row owed: a removal of something that was never added would
\* swallow the next equal row.
NothingReturns == \A r \in Rows \ Truth : Union(r) <= 0
NothingOwed == \A r \in Rows : Union(r) >= 0

\* The lake's history of a copied chunk, folded, is what the chunk held at the lake's position:
\* no row missing, ...
LakeComplete == \A c \in Chunks : CopiedAt(c) # {} =>
    \A r \in RowsOf(c) \cap Live(LakePos(c)) : Count(r, All) >= 1
\* ... none twice, none that had been deleted.
LakeSingle == \A c \in Chunks : CopiedAt(c) # {} =>
    LET live == Live(LakePos(c)) IN
    \A r \in RowsOf(c) : Count(r, All) <= IF r \in live THEN 1 ELSE 0

\* Progress is never ahead of what the lake holds, nor the slot of progress.
ProgressHeld == \A l \in 1..progress : Relevant(log[l]) => applied[l] > 0
SlotBehind == slot <= progress

-----------------------------------------------------------------------------
(* Probes: each says that something interesting never happens, and TLC must refute it. *)

NeverDropped == \A c \in Chunks : dropped[c] = 0
NeverReadFromLake == \A r \in Rows : dropped[ChunkOf[r]] # 0 => Union(r) = 0
NeverRefused == IF dr = None THEN TRUE
                ELSE dr.pc = "begun" \/ Fingerprint(dr.c) = receipt[dr.c].fp
NeverCut == \A r \in Rows : LET c == ChunkOf[r] IN
    dropped[c] # 0 /\ progress < dropped[c] => Count(r, All) = Count(r, receipt[c].pos)
NeverCopiedThenUpdated == \A i \in DOMAIN copies : \A l \in DOMAIN log :
    l > copies[i].L /\ applied[l] > 0 => Minus(log[l]) \cap copies[i].rows = {} \/ Plus(log[l]) = {}
NeverCopiedTwice == Len(copies) < 2
NeverSuperseded == \A i \in DOMAIN copies : \A l \in DOMAIN log :
    l <= copies[i].L /\ applied[l] > 0 => \A o \in log[l].ops : ChunkOf[o.row] # copies[i].c
NeverUnheard == \A l \in DOMAIN log : Heard(log[l]) = log[l].ops
NeverStreamedUnseen == \A l \in Invisible : applied[l] = 0
NeverUnrecorded == ~(crashes > 0 /\ batch = None /\ marker > progress)
NeverOverlapping == IF batch = None THEN TRUE
                    ELSE ~(crashes > 0 /\ batch.from < marker /\ batch.to > marker)
NeverFallenBack == ~(crashes > 0 /\ batch = None /\ slot < progress)
NeverReset == \A l \in DOMAIN log : applied[l] > 0 => log[l].named = {}
NeverUnflushed == \A r \in Rows : hot[r] <= durable
=============================================================================
