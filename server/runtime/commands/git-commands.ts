/** The commands of git by what is known of them. */

/** No alias takes their place. */
export const commandsOfGit: ReadonlySet<string> = new Set(
  `add am apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean clone commit
  config count-objects describe diff diff-index diff-tree fetch for-each-ref format-patch fsck gc grep hash-object help
  init log ls-files ls-remote ls-tree maintenance merge merge-base merge-tree mv notes pull push range-diff rebase reflog
  remote repack reset restore rev-list rev-parse revert rm shortlog show show-ref sparse-checkout stash status submodule
  switch symbolic-ref tag update-index update-ref version worktree
  send-pack receive-pack fetch-pack upload-pack upload-archive`.split(/\s+/),
);

/**
 * Others of git's own that write what their words name, be it git's settings, start what they name, or serve others over
 * the line. No alias takes the place of one of them; what is in neither list is an alias, or somebody else's.
 */
const powerful: ReadonlySet<string> = new Set(
  `archimport bugreport checkout-index citool cvsexportcommit cvsimport cvsserver daemon diagnose fast-import
  for-each-repo gui hook imap-send index-pack instaweb interpret-trailers mailinfo mailsplit mergetool
  multi-pack-index p4 pack-objects quiltimport receive-pack scalar send-email send-pack sh-i18n sh-setup shell svn
  unpack-objects update-server-info upload-archive upload-pack`.split(/\s+/),
);

/** Helpers of its commands, which take files and programs by their words; two of them only show something. */
const helper = /--|^(credential|http|remote|merge)-(?!base$|tree$)/;

/** Whether a star may not stand for the command: whoever allowed all of git did not think of it. */
export function hasToBeNamed(name: string): boolean {
  return powerful.has(name) || helper.test(name);
}
