/** A small repository with a test that fails, for an agent to mend. It needs nothing but a shell. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What the agent is asked. */
export const task =
  'The test in this repository fails: run it with "sh test.sh". Find the fault and mend it with as small a change as ' +
  'you can, in src/ only. Whether digits belong into a slug is written nowhere: ask me. At the end the test has to pass.';

const files: Readonly<Record<string, string>> = {
  'README.md': '# slug\n\nTurns a title into the name of a page: `. src/slug.sh; slug "Hello World"`.\n',
  'src/slug.sh': [
    '# Turns a title into a slug: lower case, words joined by single hyphens, none at the ends.',
    'slug() {',
    '  printf "%s" "$1" | tr "A-Z" "a-z" | tr -cs "a-z" "-"',
    '}',
    '',
  ].join('\n'),
  'test.sh': [
    '# Prints each case that fails; the exit code is how many there were.',
    '. ./src/slug.sh',
    'failed=0',
    'check() {',
    '  actual=$(slug "$1")',
    '  [ "$actual" = "$2" ] && return',
    '  echo "slug \\"$1\\": expected $2, got $actual"',
    '  failed=$((failed + 1))',
    '}',
    'check "Hello World" hello-world',
    'check "  Trim me!  " trim-me',
    'check "Area 51" area-51',
    'echo "$failed failed"',
    'exit $failed',
    '',
  ].join('\n'),
};

/** Makes the repository, with one commit, in the folder. */
export async function makeRepository(folder: string): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  // Whoever the server runs its commands as has to work in it.
  await chmod(folder, 0o755);
  const git = (...words: string[]) => execFileSync('git', ['-C', folder, ...words], { stdio: 'pipe' });
  git('init', '-q');
  git('add', '-A');
  git(
    '-c',
    'user.name=Ada',
    '-c',
    'user.email=ada@example.com',
    'commit',
    '-qm',
    'A slug, and a test that fails',
  );
}

/** How the test of the repository ends: 0 is what the agent is to bring about. */
export function runItsTest(folder: string): { readonly exitCode: number | null; readonly printed: string } {
  const { status, stdout } = spawnSync('sh', ['test.sh'], { cwd: folder, encoding: 'utf8', timeout: 10_000 });
  return { exitCode: status, printed: stdout };
}

/** The last words of the scripted agent. */
export const lastWords =
  'The slug kept no digits and left hyphens at its ends. I mended src/slug.sh; the test passes. ✓';

/** What the scripted agent says and calls, a step each. */
const steps: readonly (readonly [said: string, tool: string, input: object])[] = [
  ['I look around.', 'ls', { path: '.' }],
  ['The test first.', 'view', { file_path: 'test.sh' }],
  ['Where is it defined?', 'grep', { pattern: 'slug\\(\\)' }],
  ['There.', 'view', { file_path: 'src/slug.sh' }],
  ['What does the test say?', 'bash', { command: 'sh test.sh', description: 'Run the test' }],
  [
    'One thing I cannot know.',
    'ask_user',
    { questions: [{ id: 'digits', type: 'yes_no', text: 'Do digits belong into a slug?' }] },
  ],
  [
    'Then this.',
    'edit',
    {
      file_path: 'src/slug.sh',
      old_string: 'tr -cs "a-z" "-"',
      new_string: 'tr -cs "a-z0-9" "-" | sed "s/^-//; s/-$//"',
    },
  ],
  ['Does it hold?', 'bash', { command: 'sh test.sh', description: 'Run the test again' }],
  ['Is that all I changed?', 'bash', { command: 'git status --short', description: 'See what changed' }],
];

/** The same for the scripted upstream, which says the last words at the tenth step. */
export const script: readonly object[] = [
  ...steps.map(([text, name, input], step) => ({
    when: { step },
    reply: { text, tool_calls: [{ name, arguments: input }], chunk_size: 4 },
  })),
  { when: { step: steps.length }, reply: { text: lastWords, chunk_size: 4 } },
];

/** All that the scripted agent says, as one. */
export const everythingSaid = [...steps.map(([said]) => said), lastWords].join('');
