/** What the README and docs/messages.md show of providers and clients is run as it stands there, and prints what stands there. */
import { execFile, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Server, startServer } from '../start-server.ts';
import { startUpstream, type Upstream } from '../upstream/start-upstream.ts';

const root = join(import.meta.dirname, '../..');
const page = await readFile(join(root, 'docs/messages.md'), 'utf8');
const readme = await readFile(join(root, 'README.md'), 'utf8');
const [, section = ''] = readme.split('\n## The same from a client\n');

/** A command as a person types it, and what it prints. */
interface Shown {
  readonly command: string;
  readonly printed: string;
}

interface Block {
  readonly language: string;
  readonly text: string;
}

let folder: string;
let upstream: Upstream;
let server: Server;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-documented-'));
  upstream = await startUpstream();
  await mkdir(join(folder, 'config'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'service-account.json'), serviceAccount());
  await writeFile(join(folder, 'config/service.json'), JSON.stringify(settings()));
  for (const [name, text] of programs(blocksOf(page))) await writeFile(join(folder, name), text);
  const variables = { OPENAI_KEY: 'k', ANTHROPIC_KEY: 'k', GEMINI_KEY: 'k', AZURE_KEY: 'k' };
  server = await startServer({ folder, variables });
});
afterAll(async () => {
  await server?.stop();
  await upstream?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Those of the page, with the scripted upstream in the place of every provider. */
function settings() {
  const [first] = blocksOf(page);
  const shown = JSON.parse(first?.text ?? '');
  const usual: Record<string, string> = { openai: '/v1', anthropic: '/v1', gemini: '/v1beta' };
  for (const [id, provider] of Object.entries<Record<string, string>>(shown.providers)) {
    const { pathname, search } = new URL(provider.base_url ?? `https://vendor.example${usual[id]}`);
    provider.base_url = upstream.url + (pathname === '/' ? '' : pathname) + search;
    // The one that needs none on its own machine.
    provider.api_key = provider.api_key?.replace('/run/secrets', folder) ?? 'k';
  }
  return shown;
}

function serviceAccount(): string {
  const { privateKey: private_key } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return JSON.stringify({
    ...{ type: 'service_account', project_id: 'ours', private_key_id: 'id', private_key },
    ...{ client_email: 'robot@ours.iam.gserviceaccount.com', token_uri: `${upstream.url}/token` },
  });
}

function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', inside = '']) => ({
    language,
    text: inside,
  }));
}

/** The command behind a program says what its file is called. */
function programs(blocks: readonly Block[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const [index, { language, text }] of blocks.entries()) {
    const name = /^\$ (?:node|python) (\S+)/.exec(blocks[index + 1]?.text ?? '')?.[1];
    if (name && (language === 'js' || language === 'python')) found.set(name, text);
  }
  return found;
}

/** What can be run here, one after the other: the agents have a target of their own. */
function shownIn(text: string): Shown[] {
  const consoles = blocksOf(text).filter(({ language }) => language === 'console');
  return consoles.flatMap((block) =>
    block.text
      .split(/^\$ /m)
      .slice(1)
      .map((one) => {
        const lines = one.split('\n');
        const last = lines.findLastIndex((line) => line.startsWith('> '));
        const command = lines.slice(0, last + 1 || 1).map((line) => line.replace(/^> /, ''));
        return { command: command.join('\n'), printed: lines.slice(command.length).join('\n') };
      })
      .filter(
        ({ command, printed }) => /^(for|curl -s|node|python) /.test(command) && !printed.includes('…'),
      ),
  );
}

/** As a person sees it on a terminal of any width, without what differs each time. */
function seen(text: string): string {
  return text
    .replaceAll(/req_\w+/g, 'req_')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

async function run(command: string): Promise<string> {
  const here = command
    .replaceAll('http://127.0.0.1:8090', server.url)
    .replaceAll('http://127.0.0.1:8099', upstream.url)
    .replace(/^python /, `${join(root, '.venv/bin/python')} `);
  const { stdout } = await promisify(execFile)('bash', ['-c', here], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, KEY: server.operatorKey, LANGSMITH_TRACING: 'false' },
  });
  return seen(stdout);
}

async function withAddresses(name: string, change: (text: string) => string): Promise<void> {
  const text = change(await readFile(join(folder, name), 'utf8'));
  await writeFile(join(folder, name), text.replaceAll('http://127.0.0.1:8090', server.url));
}

const shown = shownIn(page);
const readmeShown = section.split('\n## ')[0] ?? '';

beforeAll(async () => {
  const script = join(root, 'contract-tests/upstream/default-script.json');
  await upstream.script(JSON.parse(await readFile(script, 'utf8')).rules);
  for (const name of programs(blocksOf(page)).keys()) await withAddresses(name, (same) => same);
});

const needsJq = ({ command }: Shown) => /\bjq\b/.test(command);
const hasJq = spawnSync('jq', ['--version']).status === 0;

test.skipIf(!hasJq).each(shown.filter(needsJq))('$command', async ({ command, printed }) => {
  expect(await run(command)).toBe(seen(printed));
});

test.each(shown.filter((one) => !needsJq(one)))(
  '$command',
  async ({ command, printed }) => {
    expect(await run(command)).toBe(seen(printed));
  },
  // Python reads hundreds of files before its first line.
  180_000,
);

test.each([
  ['docs/messages.md', page],
  ['README.md', readmeShown],
])('%s shows all six types of providers, and every client', (_document, text) => {
  const commands = shownIn(text)
    .map(({ command }) => command)
    .join('\n');
  for (const provider of ['openai', 'local', 'anthropic', 'gemini', 'azure', 'vertexai'])
    expect(commands).toContain(`${provider}:`);
  expect(programs(blocksOf(page)).size).toBe(4);
  for (const name of programs(blocksOf(page)).keys()) expect(commands).toContain(name);
  for (const agent of ['claude --print', 'opencode run']) expect(text).toContain(agent);
});

test('the README shows what the page shows', () => {
  const plain = ({ command, printed }: Shown) => [seen(command.replace(/ +# .*/, '')), seen(printed)];
  const known = shown.map(plain);
  for (const one of shownIn(readmeShown)) expect(known).toContainEqual(plain(one));
});

test('the other models and the SDK of the line before print the same', async () => {
  const [node] = shown.filter(({ command }) => command.startsWith('node weather.mjs'));
  if (!node) throw new Error('the page shows no weather.mjs');
  const with_ = (model: string) => run(node.command.replace(/\S+$/, model));
  expect(await with_('anthropic:claude-sonnet-5')).toBe(seen(node.printed));
  await withAddresses('weather.mjs', (text) =>
    text.replace("'@anthropic-ai/sdk'", "'@anthropic-ai/sdk-legacy'"),
  );
  expect(await with_('azure:our-deployment')).toBe(seen(node.printed));
});
