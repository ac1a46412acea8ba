; grants one lock: a core rings with 1 to ask for it and with 0 to give it back
.detector request event=software handler=on_ring priority=high stall=yes
.word taken 0
.word granted 0
.word refused 0
on_ring:
    beq  r2, r0, give_back
    ld   r6, taken(r0)
    bne  r6, r0, refuse
    addi r6, r0, 1
    st   r6, taken(r0)
    ld   r7, granted(r0)
    addi r7, r7, 1
    st   r7, granted(r0)
    pmsig grant, r3, r6
    pmhalt
refuse:
    ld   r7, refused(r0)
    addi r7, r7, 1
    st   r7, refused(r0)
    pmsig grant, r3, r0
    pmhalt
give_back:
    st   r0, taken(r0)
    pmhalt
