/** Programs whose further words are, or become, commands: the ones whose own words do not say what runs. */

/** Shells: they run scripts that they are given. */
export const shells: ReadonlySet<string> = wordsOf(`
  sh bash dash zsh ksh mksh ash fish csh tcsh rbash pwsh
`);

const wrappers: ReadonlySet<string> = wordsOf(`
  sudo doas su runuser xargs parallel env nohup nice ionice chrt taskset timeout time stdbuf setsid unshare
  nsenter chroot fakeroot strace ltrace gdb valgrind watch script flock busybox toybox ssh command builtin
  setpriv prlimit systemd-run at batch entr expect unbuffer rlwrap faketime catchsegv sg newgrp setarch
  linux32 linux64 i386 x86_64 uname26 cgexec firejail bwrap proot eatmydata choom uclampset pipesz numactl
  ssh-agent systemd-cat systemd-inhibit dbus-run-session dbus-launch start-stop-daemon pkexec run0 xvfb-run
  tini dumb-init catatonit gosu su-exec
`);

/** Whether a command starts what its further words name. Also the loader of shared libraries does, under many names. */
export function isWrapper(program: string): boolean {
  return wrappers.has(program) || /^ld[\w.-]*\.so(\.\d+)?$/.test(program);
}

/** Those of them that give a word to a shell, read it as a script of their own, or put the command together from options. */
export const evaluators: ReadonlySet<string> = wordsOf(`
  env watch flock script parallel su runuser sg newgrp ssh entr expect gdb at batch start-stop-daemon
`);

/** Builtins that change the shell for what follows, or take their words for more than words. */
export const stateful: ReadonlySet<string> = wordsOf(`
  source . exec trap alias unalias enable hash set shopt export declare typeset local readonly let read
  mapfile readarray unset compgen complete compopt bind fc getopts wait history coproc function select
  disown caller
`);

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}
