/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's ABI of terminals, for x86-64: termios(3), ioctl_tty(2).
 */
#ifndef MOAT_BASE_LX_TTY_H
#define MOAT_BASE_LX_TTY_H

#include "base/types.h"

#define LX_TCGETS 0x5401u
#define LX_TCSETS 0x5402u
#define LX_TCSETSW 0x5403u
#define LX_TCSETSF 0x5404u
#define LX_TCGETA 0x5405u
#define LX_TCSETA 0x5406u
#define LX_TCSETAW 0x5407u
#define LX_TCSETAF 0x5408u
#define LX_TCSBRK 0x5409u
#define LX_TCXONC 0x540au
#define LX_TCFLSH 0x540bu
#define LX_TIOCEXCL 0x540cu
#define LX_TIOCNXCL 0x540du
#define LX_TIOCSCTTY 0x540eu
#define LX_TIOCGPGRP 0x540fu
#define LX_TIOCSPGRP 0x5410u
#define LX_TIOCOUTQ 0x5411u
#define LX_TIOCSTI 0x5412u
#define LX_TIOCGWINSZ 0x5413u
#define LX_TIOCSWINSZ 0x5414u
#define LX_TIOCMGET 0x5415u
#define LX_TIOCMBIS 0x5416u
#define LX_TIOCMBIC 0x5417u
#define LX_TIOCMSET 0x5418u
#define LX_TIOCGSOFTCAR 0x5419u
#define LX_TIOCSSOFTCAR 0x541au
#define LX_TIOCINQ 0x541bu
#define LX_TIOCCONS 0x541du
#define LX_TIOCPKT 0x5420u
#define LX_TIOCNOTTY 0x5422u
#define LX_TIOCSETD 0x5423u
#define LX_TIOCGETD 0x5424u
#define LX_TCSBRKP 0x5425u
#define LX_TIOCSBRK 0x5427u
#define LX_TIOCCBRK 0x5428u
#define LX_TIOCGSID 0x5429u
#define LX_TCGETS2 0x802c542au
#define LX_TCSETS2 0x402c542bu
#define LX_TCSETSW2 0x402c542cu
#define LX_TCSETSF2 0x402c542du
#define LX_TIOCGPTN 0x80045430u
#define LX_TIOCSPTLCK 0x40045431u
#define LX_TIOCGDEV 0x80045432u
#define LX_TIOCSIG 0x40045436u
#define LX_TIOCVHANGUP 0x5437u
#define LX_TIOCGPKT 0x80045438u
#define LX_TIOCGPTLCK 0x80045439u
#define LX_TIOCGEXCL 0x80045440u
#define LX_TIOCGPTPEER 0x5441u
#define LX_TIOCGLCKTRMIOS 0x5456u
#define LX_TIOCSLCKTRMIOS 0x5457u
#define LX_TIOCGICOUNT 0x545du

/* c_iflag */
#define LX_IGNBRK 0000001u
#define LX_BRKINT 0000002u
#define LX_IGNPAR 0000004u
#define LX_PARMRK 0000010u
#define LX_INPCK 0000020u
#define LX_ISTRIP 0000040u
#define LX_INLCR 0000100u
#define LX_IGNCR 0000200u
#define LX_ICRNL 0000400u
#define LX_IUCLC 0001000u
#define LX_IXON 0002000u
#define LX_IXANY 0004000u
#define LX_IXOFF 0010000u
#define LX_IMAXBEL 0020000u
#define LX_IUTF8 0040000u

/* c_oflag */
#define LX_OPOST 0000001u
#define LX_OLCUC 0000002u
#define LX_ONLCR 0000004u
#define LX_OCRNL 0000010u
#define LX_ONOCR 0000020u
#define LX_ONLRET 0000040u
#define LX_TABDLY 0014000u
#define LX_XTABS 0014000u

/* c_cflag */
#define LX_CBAUD 0010017u
#define LX_CBAUDEX 0010000u
#define LX_BOTHER 0010000u
#define LX_B38400 0000017u
#define LX_CSIZE 0000060u
#define LX_CS8 0000060u
#define LX_CREAD 0000200u
#define LX_PARENB 0000400u
#define LX_HUPCL 0002000u
#define LX_CLOCAL 0004000u
#define LX_IBSHIFT 16

/* c_lflag */
#define LX_ISIG 0000001u
#define LX_ICANON 0000002u
#define LX_ECHO 0000010u
#define LX_ECHOE 0000020u
#define LX_ECHOK 0000040u
#define LX_ECHONL 0000100u
#define LX_NOFLSH 0000200u
#define LX_TOSTOP 0000400u
#define LX_ECHOCTL 0001000u
#define LX_ECHOPRT 0002000u
#define LX_ECHOKE 0004000u
#define LX_FLUSHO 0010000u
#define LX_PENDIN 0040000u
#define LX_IEXTEN 0100000u
#define LX_EXTPROC 0200000u

/* c_cc */
#define LX_VINTR 0
#define LX_VQUIT 1
#define LX_VERASE 2
#define LX_VKILL 3
#define LX_VEOF 4
#define LX_VTIME 5
#define LX_VMIN 6
#define LX_VSWTC 7
#define LX_VSTART 8
#define LX_VSTOP 9
#define LX_VSUSP 10
#define LX_VEOL 11
#define LX_VREPRINT 12
#define LX_VDISCARD 13
#define LX_VWERASE 14
#define LX_VLNEXT 15
#define LX_VEOL2 16
#define LX_NCCS 19
#define LX_NCC 8 /* of struct termio */

/* TCFLSH, TCXONC */
#define LX_TCIFLUSH 0
#define LX_TCOFLUSH 1
#define LX_TCIOFLUSH 2
#define LX_TCOOFF 0
#define LX_TCOON 1
#define LX_TCIOFF 2
#define LX_TCION 3

/* Packet mode: the first byte of a read of the master. */
#define LX_TIOCPKT_DATA 0u
#define LX_TIOCPKT_FLUSHREAD 1u
#define LX_TIOCPKT_FLUSHWRITE 2u
#define LX_TIOCPKT_STOP 4u
#define LX_TIOCPKT_START 8u
#define LX_TIOCPKT_NOSTOP 16u
#define LX_TIOCPKT_DOSTOP 32u
#define LX_TIOCPKT_IOCTL 64u

struct lx_termio {
	uint16_t c_iflag, c_oflag, c_cflag, c_lflag;
	uint8_t c_line;
	uint8_t c_cc[LX_NCC];
	uint8_t pad;
};
_Static_assert(sizeof(struct lx_termio) == 18, "struct termio");

/* struct termios2 of the kernel; its struct termios is the same without the speeds. */
struct lx_termios2 {
	uint32_t c_iflag, c_oflag, c_cflag, c_lflag;
	uint8_t c_line;
	uint8_t c_cc[LX_NCCS];
	uint32_t c_ispeed, c_ospeed;
};
_Static_assert(sizeof(struct lx_termios2) == 44, "struct termios2");
#define LX_TERMIOS_SIZE (offsetof(struct lx_termios2, c_ispeed))
_Static_assert(LX_TERMIOS_SIZE == 36, "the kernel's struct termios");

struct lx_winsize {
	uint16_t ws_row, ws_col, ws_xpixel, ws_ypixel;
};
_Static_assert(sizeof(struct lx_winsize) == 8, "struct winsize");

#endif
