// A real git server for tests, with repositories made by git itself: it listens in their process, and goes with it.
import { execFileSync, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface TestGitServer {
  readonly url: string;
  /** What requests have said of who asks. */
  readonly authorizations: (string | undefined)[];
  /** Answers in its place where it is not null: true once it has. */
  answer: ((request: IncomingMessage, response: ServerResponse) => boolean) | null;
  make(name: string): Promise<TestRepository>;
  stop(): Promise<void>;
}

export interface TestRepository {
  readonly url: string;
  /** Its files become these; a name that is not there any more is gone. Answers with the commit. */
  commit(
    files: Readonly<Record<string, string | Uint8Array>>,
    more?: { readonly tag?: string },
  ): Promise<string>;
  /** git in the repository, for what no honest person makes. */
  git(args: readonly string[], input?: string | Uint8Array): string;
  /** Makes a commit of a tree the tip. */
  commitTree(tree: string): string;
}

const author = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' };
const committer = { GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' };

export async function startGitServer(): Promise<TestGitServer> {
  const folder = await mkdtemp(join(tmpdir(), 'service-git-'));
  // Of whoever does not stop it.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const started: TestGitServer = {
    url: '',
    authorizations: [],
    answer: null,
    make: (name) => makeRepository(folder, name, started.url),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
  const server = createServer((request, response) => {
    started.authorizations.push(request.headers.authorization);
    if (started.answer?.(request, response)) return;
    serve(folder, request, response);
  }).unref();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return Object.assign(started, { url: `http://127.0.0.1:${port}` });
}

/** As any web server runs git's own program: https://git-scm.com/docs/git-http-backend. */
function serve(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://git');
  const env = {
    PATH: process.env.PATH ?? '',
    GIT_PROJECT_ROOT: folder,
    GIT_HTTP_EXPORT_ALL: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    PATH_INFO: pathname,
    QUERY_STRING: searchParams.toString(),
    REQUEST_METHOD: request.method ?? '',
    CONTENT_TYPE: request.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
    GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    REMOTE_ADDR: '127.0.0.1',
  };
  const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
  backend.stdin.on('error', () => undefined);
  request.pipe(backend.stdin);
  const pieces: Buffer[] = [];
  backend.stdout.on('data', (piece: Buffer) => pieces.push(piece));
  backend.on('close', () => {
    const all = Buffer.concat(pieces);
    const end = all.indexOf('\r\n\r\n');
    const headers = all
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(/: */, 2) as [string, string]);
    const status = Number(headers.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200);
    response.writeHead(status, Object.fromEntries(headers)).end(all.subarray(end + 4));
  });
}

async function makeRepository(folder: string, name: string, server: string): Promise<TestRepository> {
  const place = join(folder, `${name}.git`);
  const work = join(folder, `${name}.work`);
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    ...author,
    ...committer,
    GIT_CONFIG_GLOBAL: '/dev/null',
  };
  const run = (directory: string, args: readonly string[], input?: string | Uint8Array) =>
    execFileSync('git', ['-C', directory, ...args], { env, input, stdio: ['pipe', 'pipe', 'pipe'] })
      .toString()
      .trim();
  run(folder, ['init', '--quiet', '--bare', '--initial-branch=main', place]);
  run(folder, ['init', '--quiet', '--initial-branch=main', work]);
  const push = (tag?: string) =>
    run(work, [
      'push',
      '--quiet',
      '--force',
      place,
      'HEAD:refs/heads/main',
      ...(tag ? [`HEAD:refs/tags/${tag}`] : []),
    ]);
  return {
    url: `${server}/${name}.git`,
    async commit(files, { tag } = {}) {
      run(work, ['rm', '-r', '-q', '--ignore-unmatch', '.']);
      for (const [path, content] of Object.entries(files)) {
        await mkdir(dirname(join(work, path)), { recursive: true });
        await writeFile(join(work, path), content, { mode: path.endsWith('.sh') ? 0o755 : 0o644 });
      }
      run(work, ['add', '--all']);
      run(work, ['commit', '--quiet', '--allow-empty', '--message', 'A commit']);
      push(tag);
      return run(work, ['rev-parse', 'HEAD']);
    },
    git: (args, input) => run(place, args, input),
    commitTree(tree) {
      const commit = run(place, ['commit-tree', tree, '-m', 'A commit']);
      run(place, ['update-ref', 'refs/heads/main', commit]);
      return commit;
    },
  };
}
