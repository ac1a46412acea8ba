; chooses LRU or bimodal insertion for the shared cache by how much work the program does for its misses
.detector misses event=l2_miss every=16 handler=on_miss
.detector progress event=instructions every=1000 handler=on_progress
.word missed 0      ; in sixteens
.word work 0        ; instructions meanwhile, in thousands
.word settling 0    ; 1 after a change: the cache gets what the policy leaves it first
.word trying 0      ; 1 while the other policy is tried out
.word before 0      ; work for as many misses under the policy that was left for that
.word hold 0        ; measurements until the other is tried again
.word patience 4    ; the next hold; doubles while the choice stays

; 65,536 misses are one measurement: 2 MiB have 32,768 lines, so all of them were exchanged twice.
on_miss:
    ld   r6, missed(r0)
    addi r6, r6, 1
    st   r6, missed(r0)
    li   r7, 4096
    bltu r6, r7, done
    ld   r8, settling(r0)
    st   r0, settling(r0)
    bne  r8, r0, fresh
    ld   r8, work(r0)
    ld   r9, trying(r0)
    bne  r9, r0, judge
    ld   r9, hold(r0)
    beq  r9, r0, try
    addi r9, r9, -1
    st   r9, hold(r0)
    jmp  fresh
try:
    st   r8, before(r0)
    addi r9, r0, 1
    st   r9, trying(r0)
    jmp  change
judge:                      ; an eighth more work for as many misses, or back
    ld   r9, before(r0)
    shri r10, r9, 3
    add  r10, r10, r9
    bltu r10, r8, keep
    st   r0, trying(r0)
    ld   r10, patience(r0)
    st   r10, hold(r0)
    shli r10, r10, 1
    li   r11, 1024
    bltu r11, r10, change
    st   r10, patience(r0)
    jmp  change
keep:
    st   r0, trying(r0)
    st   r0, settling(r0)
    addi r10, r0, 64
    st   r10, hold(r0)
    addi r10, r0, 4
    st   r10, patience(r0)
    jmp  fresh
change:
    pmchk r8, replacement
    xori r8, r8, 1
    pmsig replacement, r8
    addi r9, r0, 1
    st   r9, settling(r0)
fresh:
    st   r0, missed(r0)
    st   r0, work(r0)
done:
    pmhalt

on_progress:
    ld   r8, work(r0)
    addi r8, r8, 1
    st   r8, work(r0)
    ld   r9, trying(r0)
    beq  r9, r0, holding
    ld   r9, before(r0)     ; twice the work already: no need to wait for the misses
    shli r9, r9, 1
    bltu r9, r8, keep
    pmhalt
holding:                    ; fewer than four misses in a thousand instructions are not worth a try
    li   r9, 16384
    bltu r9, r8, fresh
    pmhalt
