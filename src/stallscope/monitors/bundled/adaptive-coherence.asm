; chooses MOESI or Dragon by how much work the program does for the bus cycles that sharing takes
.detector fills event=peer_fill every=8 handler=on_fill
.detector invalidates event=write_invalidate every=8 handler=on_invalidate
.detector updates event=write_update every=8 handler=on_update
.detector progress event=instructions every=1000 handler=on_progress priority=high
.word cost 0        ; cycles that sharing took, in eights
.word work 0        ; instructions meanwhile, in thousands
.word settling 0    ; 1 after a change: caches get what the protocol leaves them first
.word trying 0      ; 1 while the other protocol is tried out
.word before 0      ; work for the same cost under the protocol that was left for that
.word base 0        ; and under the one that was chosen, when it was; 0: none was
.word hold 256      ; measurements until the other is tried again
.word patience 256  ; the next hold; doubles while the choice stays

; A line from another cache takes the bus for 40 cycles, and a core waits 44 for it; an address takes
; the bus for 8 and a word for 12, which a store buffer hides. Signals stand for eight of each. High rates of fills and invalidates speak against MOESI, of updates
; against Dragon; what counts is how far the program gets for them.
on_fill:
    addi r7, r0, 84
    jmp  add_cost
on_invalidate:
    addi r7, r0, 8
    jmp  add_cost
on_update:
    addi r7, r0, 12
add_cost:
    ld   r6, cost(r0)
    add  r6, r6, r7
    st   r6, cost(r0)
    li   r7, 8192           ; 65,536 cycles are one measurement
    bltu r6, r7, done
    ld   r8, settling(r0)
    st   r0, settling(r0)
    bne  r8, r0, fresh
    ld   r8, work(r0)
    ld   r9, trying(r0)
    bne  r9, r0, judge
; Holding: the other protocol is tried when none was yet, when the same cost brings a third less
; work than it did, and now and then.
    ld   r10, base(r0)
    beq  r10, r0, try
    shri r11, r10, 2
    sub  r11, r10, r11
    bltu r8, r11, try
    add  r10, r10, r8       ; half old, half new
    shri r10, r10, 1
    st   r10, base(r0)
    ld   r10, hold(r0)
    addi r10, r10, -1
    st   r10, hold(r0)
    bne  r10, r0, fresh
try:
    st   r8, before(r0)
    addi r9, r0, 1
    st   r9, trying(r0)
    jmp  change
judge:                      ; a sixteenth more work for the cost, or back
    ld   r9, before(r0)
    shri r10, r9, 4
    add  r10, r10, r9
    bltu r10, r8, keep
    st   r0, trying(r0)
    st   r9, base(r0)
    ld   r10, patience(r0)
    st   r10, hold(r0)
    shli r10, r10, 1
    li   r11, 4096
    bltu r11, r10, change
    st   r10, patience(r0)
    jmp  change
keep:
    st   r0, trying(r0)
    st   r8, base(r0)
    addi r10, r0, 256
    st   r10, patience(r0)
    st   r10, hold(r0)
    jmp  fresh
change:
    pmchk r8, coherence
    xori r8, r8, 1
    pmsig coherence, r8
    addi r9, r0, 1
    st   r9, settling(r0)
fresh:
    st   r0, cost(r0)
    st   r0, work(r0)
done:
    pmhalt

on_progress:
    ld   r8, work(r0)
    addi r8, r8, 1
    st   r8, work(r0)
    ld   r9, trying(r0)
    beq  r9, r0, holding
    ld   r9, before(r0)     ; twice the work already: no need to wait for the cost
    shli r9, r9, 1
    bltu r9, r8, keep
    pmhalt
; 65,536 cycles are 5% of the 1.3 million cycles that four cores take at least for 5,243
; thousand instructions: what costs less is not worth a try.
holding:
    li   r9, 5243
    bltu r9, r8, fresh
    pmhalt
