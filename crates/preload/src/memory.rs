//! What the compiler needs of a C library: it turns loops into calls of these.
//!
//! They are hidden, so that neither the program sees ours nor we see the program's. The string instructions
//! are written out because Rust bodies would be turned into calls of themselves.

use core::arch::global_asm;

macro_rules! hidden {
    ($name:literal, $($line:literal),+ $(,)?) => {
        global_asm!(
            concat!(".section .text.jobglass_", $name, ",\"ax\",@progbits"),
            concat!(".globl ", $name), concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"), concat!($name, ":"),
            $($line),+,
            concat!(".size ", $name, ", . - ", $name), ".text",
        );
    };
}

hidden!("memcpy", "mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret");

hidden!(
    "memmove",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
);

hidden!("memset", "mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret");

hidden!(
    "memcmp",
    "xor eax, eax",
    "2:",
    "test rdx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "inc rdi",
    "inc rsi",
    "dec rdx",
    "sub eax, ecx",
    "je 2b",
    "3:",
    "ret",
);

hidden!("bcmp", "jmp memcmp");

hidden!(
    "strlen",
    "xor eax, eax",
    "2:",
    "cmp byte ptr [rdi + rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3:",
    "ret",
);
