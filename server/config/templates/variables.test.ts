/** Variables and commands in settings: what is replaced, what is refused, and that no value leaks. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these templates are not JavaScript's.
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { processStat } from '../../process-stat.ts';
import { ExpansionError } from './expansion-error.ts';
import { type ExpansionOptions, expandTemplate, previewTemplate } from './variables.ts';

let folder: string;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'service-variables-')));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

function expand(
  template: string,
  variables: Readonly<Record<string, string>> = environment,
  options: Partial<ExpansionOptions> = {},
): Promise<string> {
  return expandTemplate(template, variables, { workingDirectory: folder, ...options });
}

const environment = {
  NAME: 'value',
  OTHER: 'other',
  EMPTY: '',
  NESTED: '$NAME ${NAME} $(whoami)',
  SERVICE_MASTER_KEY: 'master-secret',
  PATH: process.env.PATH ?? '',
};

describe('what is replaced', () => {
  test.each([
    ['plain', 'plain'],
    ['', ''],
    ['$NAME', 'value'],
    ['a$NAME.b', 'avalue.b'],
    ['${NAME}', 'value'],
    ['${NAME}${OTHER}x', 'valueotherx'],
    ['$NAMES', ''],
    ['${UNSET}', ''],
    ['[$UNSET]', '[]'],
    ['${NAME:-default}', 'value'],
    ['${UNSET:-default}', 'default'],
    ['${EMPTY:-default}', 'default'],
    ['${UNSET:-}', ''],
    ['${UNSET:-a$OTHER}', 'aother'],
    ['${UNSET:-${EMPTY:-${NAME}}}', 'value'],
    ['${UNSET:-http://127.0.0.1:8000/v1}', 'http://127.0.0.1:8000/v1'],
    ['${NAME:?must be set}', 'value'],
    ['${NAME:-${UNSET:?not needed here}}', 'value'],
    ['\\$NAME', '$NAME'],
    ['a\\b', 'a\\b'],
    ['}{', '}{'],
  ])('%j becomes %j', async (template, expanded) => {
    expect(await expand(template)).toBe(expanded);
    expect(previewTemplate(template, environment)).toBe(expanded);
  });

  test('what a variable holds is not read again', async () => {
    expect(await expand('$NESTED')).toBe('$NAME ${NAME} $(whoami)');
  });

  test('names that every object has are not variables', async () => {
    expect(await expand('$constructor$__proto__$toString')).toBe('');
  });
});

describe('a command', () => {
  test.each([
    ['$(echo hello)', 'hello'],
    ['[$(printf "a b")]', '[a b]'],
    ['$(echo one; echo two)\n', 'one\ntwo\n'],
    ['$(printf "x\n\n\n")', 'x'],
    ['$(printf "  x ")', '  x '],
    ['$(true)', ''],
    ['$()', ''],
    ['$(echo $(echo $(echo deep)))', 'deep'],
    ['$(echo "a)b" \'c)d\' e\\)f)', 'a)b c)d e)f'],
    ['$(echo "$(echo ")")" "\\"")', ') "'],
    ['$( (echo sub; echo shell) | tr "\n" " ")', 'sub shell '],
    ['$(echo ${NAME:-")"} `echo ")"`)', 'value )'],
    ['$(echo ${UNSET:-)})', ')'],
    ["$(echo yes # it's a comment with )\n)", 'yes'],
    ['$(echo a#b)', 'a#b'],
    ['$(echo "$NAME" \'$NAME\')', 'value $NAME'],
    ['${UNSET:-$(echo from a command)}', 'from a command'],
    ['${UNSET:-a}b$(echo "}")}', 'ab}}'],
    ['$NAME-$(echo b)-${OTHER}', 'value-b-other'],
    ['\\$(echo no)', '$(echo no)'],
    ["$(printf 'a\\000b')", 'ab'],
    ["$(echo '$(not run)')", '$(not run)'],
  ])('%j becomes %j', async (template, expanded) => {
    expect(await expand(template)).toBe(expanded);
  });

  test('is run where it is told to', async () => {
    expect(await expand('$(pwd)')).toBe(folder);
  });

  test('is not run where a variable makes it needless, nor before it is needed', async () => {
    const canary = join(folder, 'canary');
    expect(await expand(`\${NAME:-$(touch ${canary})}`)).toBe('value');
    expect(previewTemplate(`\${UNSET:-$(touch ${canary})}`, environment)).toBeNull();
    await expect(expand(`$(touch ${canary})\${UNSET:?}`)).rejects.toThrow('is not set');
    await expect(readFile(canary)).rejects.toThrow('ENOENT');
  });

  test('sees the person’s variables and none of the service’s', async () => {
    const printed = await expand('$(env)', {
      ...environment,
      service_master_key: 'canary',
      SERVICE_ADMIN_PASSWORD_FILE: 'canary',
      DATABASE_URL: 'postgres://me:canary@host/db',
      DATABASE_URL_FILE: 'canary',
      STORAGE_URL: 's3://canary',
      STORAGE_URL_FILE: 'canary',
      DATABASE_URLS: 'another',
    });
    expect(printed).toContain('NAME=value');
    expect(printed).toContain('DATABASE_URLS=another');
    expect(printed).not.toContain('master-secret');
    expect(printed).not.toContain('canary');
  });

  test('that fails is told of with its exit code and without its words', async () => {
    const failure = expand('$(echo secret-out; echo secret-err >&2; exit 3)x');
    await expect(failure).rejects.toThrow(ExpansionError);
    await expect(failure).rejects.toThrow(
      'The command in "$(echo secret-out; echo secret-err >&2; exit 3)x" ended with exit code 3. Try it in a terminal.',
    );
    const quiet = await messageOf(expand('$(cat words; exit 1)'));
    expect(quiet).not.toContain('No such file');
    await expect(expand('$(no-such-command)')).rejects.toThrow('ended with exit code 127');
    await expect(expand('$(kill -9 $$)')).rejects.toThrow('was ended by SIGKILL');
  });

  test('that is another user’s by then, as behind sudo, is given up and ends nothing else', async () => {
    const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
    });
    onTestFinished(() => kill.mockRestore());
    const late = expand('$(sleep 1)', environment, { timeoutMs: 100 });
    await expect(late).rejects.toThrow('did not end within 0.1 s');
    const cancelled = expand('$(sleep 1)', environment, { signal: AbortSignal.timeout(100) });
    await expect(cancelled).rejects.toThrow('timeout');
    await expect(expand('$(seq 1 100000)')).rejects.toThrow('printed more than 64 KiB');
    expect(kill).toHaveBeenCalledTimes(3);
  });

  test('that takes too long ends with all that it has started', async () => {
    const pids = join(folder, 'pids');
    const template = `$(sleep 60 & echo $! > ${pids}; echo $$ >> ${pids}; setsid sleep 30; sleep 60)`;
    const began = performance.now();
    await expect(expand(template, environment, { timeoutMs: 3000 })).rejects.toThrow(
      'did not end within 3 s',
    );
    expect(performance.now() - began).toBeLessThan(25_000);
    const started = (await readFile(pids, 'utf8')).trim().split('\n').map(Number);
    expect(started).toHaveLength(2);
    await expect.poll(() => started.some(isAlive)).toBe(false);
  });

  test('ends when nobody waits for it any more', async () => {
    const controller = new AbortController();
    const ended = expand('$(sleep 60)', environment, { signal: controller.signal });
    controller.abort(new Error('gone'));
    await expect(ended).rejects.toThrow('gone');
  });

  test('that prints without end is stopped', async () => {
    await expect(expand('$(yes)')).rejects.toThrow('printed more than 64 KiB');
    expect(await expand('$(head -c 65536 /dev/zero | tr "\\0" x)')).toHaveLength(65536);
  });

  test('cannot be started in a folder that is gone', async () => {
    await expect(expand('$(pwd)', environment, { workingDirectory: join(folder, 'gone') })).rejects.toThrow(
      'cannot be started (ENOENT)',
    );
  });
});

describe('the key of a built-in provider', () => {
  test('may stand in a file, which a variable with _FILE behind its name names', async () => {
    const file = join(folder, 'key');
    await writeFile(file, 'key-in-a-file\n');
    expect(await expand('$OPENAI_API_KEY', { OPENAI_API_KEY_FILE: file })).toBe('key-in-a-file');
    expect(await expand('$ANTHROPIC_API_KEY', { ANTHROPIC_API_KEY_FILE: file })).toBe('key-in-a-file');
    expect(await expand('$OTHER_KEY', { OTHER_KEY_FILE: file })).toBe('');
    await expect(expand('$OPENAI_API_KEY', { OPENAI_API_KEY_FILE: `${file}2` })).rejects.toThrow(
      'OPENAI_API_KEY_FILE names a file that cannot be read (ENOENT)',
    );
    await expect(
      expand('$OPENAI_API_KEY', { OPENAI_API_KEY_FILE: file, OPENAI_API_KEY: 'k' }),
    ).rejects.toThrow('OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set');
  });
});

describe('the service’s own variables', () => {
  test.each([
    ...['$SERVICE_MASTER_KEY', '${SERVICE_MASTER_KEY}', '$service_master_key', '$(echo $SERVICE_MASTER_KEY)'],
    ...['$DATABASE_URL', '$DATABASE_URL_FILE', '$STORAGE_URL', '$STORAGE_URL_FILE'],
  ])('%s is not set', async (template) => {
    const ours = { service_master_key: 's', DATABASE_URL: 's', STORAGE_URL: 's' };
    const files = { DATABASE_URL_FILE: 's', STORAGE_URL_FILE: 's' };
    expect(await expand(template, { ...environment, ...ours, ...files })).toBe('');
  });

  test('they do not satisfy a demand, and are no obstacle to a default', async () => {
    expect(await expand('${SERVICE_MASTER_KEY:-none}')).toBe('none');
    await expect(expand('${SERVICE_MASTER_KEY:?}')).rejects.toThrow('is not set');
  });
});

describe('what is refused', () => {
  test('a demanded variable that is not set, with the template and its message', async () => {
    await expect(expand('Bearer $NAME ${UNSET:?set it in your shell}')).rejects.toThrow(
      'The variable UNSET is not set, which "Bearer $NAME ${UNSET:?set it in your shell}" demands. Set it.',
    );
    await expect(expand('${EMPTY:?}')).rejects.toThrow(ExpansionError);
  });

  test.each([
    ['pa$$word', 'stands alone'],
    ['cost: 5$', 'stands alone'],
    ['$1', 'stands alone'],
    ['se${cret', 'comes "}"'],
    ['se${}cret', 'comes the name'],
    ['${NAME', 'comes "}"'],
    ['${NAME:+x}', 'comes "}"'],
    ['${NAME-x}', 'comes "}"'],
    ['${UNSET:-x', 'never closed'],
    ['$(cat key', 'never closed'],
    ['$(cat "key)', 'never closed'],
    ["$(cat 'key)", 'never closed'],
    ['$(cat `key)', 'never closed'],
    ['$(cat \\', 'never closed'],
    ['$(a # b)', 'never closed'],
    ['$('.repeat(100_000), 'never closed'],
    ['${A:-'.repeat(100_000), 'nested too deeply'],
  ])('the broken template %# ($1), without being shown: it may be a secret', async (template, reason) => {
    const message = await messageOf(expand(template));
    expect(message).toContain(reason);
    expect(message).not.toContain(template);
    expect(() => previewTemplate(template, environment)).toThrow(reason);
  });

  test('no message ever holds the value of a variable', async () => {
    for (const template of ['$NAME ${UNSET:?}', '${NAME}$(exit 1)', '$NAME $', '${UNSET:?$NAME}']) {
      const failed = expand(template, { ...environment, NAME: 'hunter2' });
      await expect(failed).rejects.toThrow(ExpansionError);
      expect(await messageOf(failed)).not.toContain('hunter2');
    }
  });

  test('a long template is cut, and its control characters are gone', async () => {
    const message = await messageOf(expand(`\u001b[31m\u202e${'x'.repeat(2000)}$(exit 1)`));
    expect(message.length).toBeLessThan(700);
    expect(message).not.toContain('\u001b');
    expect(message).not.toContain('\u202e');
  });
});

async function messageOf(expanded: Promise<unknown>): Promise<string> {
  try {
    await expanded;
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  throw new Error('nothing was refused');
}

/** A zombie has ended, too; only its parent has not heard of it. */
function isAlive(pid: number): boolean {
  return processStat(pid)?.ended === false;
}
