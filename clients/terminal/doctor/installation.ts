/** Checks of the program itself: its Node, its code, its place on PATH, and what the environment does to it. */
import { existsSync, globSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { compiledCodeFolder, isCodeCached } from '../compiled-code.ts';
import { allOnPath } from '../search-path.ts';
import type { Finding, Scene } from './examination.ts';

const checkout = join(import.meta.dirname, '../../..');

/** Native modules and the syntax of this program are made for the Node that the project pins. */
export function examineNode(_: Scene): Finding[] {
  return [nodeFinding(process.versions.node, pinnedNode())];
}

/** Whether the running Node is the pinned one. */
export function nodeFinding(running: string, pinned: string): Finding {
  if (running === pinned) return { level: 'ok', message: `Node ${running}, the one that the project pins.` };
  return {
    level: 'problem',
    message: `This is Node ${running}; the project pins ${pinned}.`,
    remedy: 'Start the command through clients/terminal/bin/service, which finds the pinned one.',
  };
}

function pinnedNode(): string {
  const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    dependencies: { node: string }; // our own manifest, which pins it
  };
  return manifest.dependencies.node;
}

const generatedFiles = [
  'server/contract/api.ts',
  'server/contract/config.ts',
  'server/contract/routes.ts',
  'server/contract/service.schema.json',
  'clients/typescript/generated',
];

/** Code that follows from the contracts is not in the repository. */
export function examineCode(_: Scene): Finding[] {
  return [codeFinding(checkout)];
}

/** Whether the generated code of a checkout is there, and newer than what it was made from. */
export function codeFinding(root: string): Finding {
  const missing = generatedFiles.filter((file) => !existsSync(join(root, file)));
  if (missing.length > 0) {
    return {
      level: 'problem',
      message: `Generated code is missing: ${missing.join(', ')}.`,
      remedy: 'Run: make generate',
    };
  }
  const made = statSync(join(root, 'server/contract/config.ts')).mtimeMs;
  // The generator leaves a file alone whose content stays the same; the stamp says when it last ran.
  const stamp = statSync(join(root, 'node_modules/.generated'), { throwIfNoEntry: false })?.mtimeMs ?? made;
  const newer = globSync('{openapi,schemas}/**/*.{yaml,json}', { cwd: root }).find(
    (file) => statSync(join(root, file)).mtimeMs > Math.max(made, stamp),
  );
  if (newer === undefined) return { level: 'ok', message: 'The generated code is there.' };
  return {
    level: 'warning',
    message: `The generated code is older than ${newer}.`,
    remedy: 'Run: make generate',
  };
}

/** Without the cache every start compiles everything anew. */
export function examineCache(_: Scene): Finding[] {
  if (isCodeCached()) return [{ level: 'ok', message: 'Compiled code is kept from start to start.' }];
  const folder = compiledCodeFolder();
  return [
    {
      level: 'warning',
      message: 'Compiled code is not kept, so that every start is slow.',
      remedy:
        folder === null
          ? 'Set HOME, or XDG_CACHE_HOME, to an absolute path.'
          : `Let ${folder} and the two folders around it be folders of yours, no links, into which nobody else can write.`,
    },
  ];
}

/** Debian, among others, has a `service` of its own. */
export function examineCommandName({ environment, places }: Scene): Finding[] {
  const ours = realpathSync(join(import.meta.dirname, '../bin/service'));
  const first = allOnPath('service', environment.PATH, places.workingDirectory)[0];
  if (first !== undefined && realpathSync(first) === ours)
    return [{ level: 'ok', message: `The shell starts this command as ${first}.` }];
  if (first === undefined) {
    const remedy = 'Put it there with: make link';
    return [{ level: 'ok', message: 'No service is on PATH.', remedy }];
  }
  const other = linkOfAnotherName(environment.PATH, places.workingDirectory, ours);
  if (other) return [{ level: 'ok', message: `The shell starts this command as ${other}.` }];
  return [
    {
      level: 'warning',
      message: `By the name service the shell starts another program: ${first}.`,
      remedy: 'Link this one under a free name, as: make link NAME=svc',
    },
  ];
}

/** The launcher leaves there the name that it was called by. */
function linkOfAnotherName(path: string | undefined, folder: string, ours: string): string | undefined {
  const [, name = ''] = process.argv;
  if (name === '' || name === 'service' || name.includes('/')) return undefined;
  const first = allOnPath(name, path, folder)[0];
  return first !== undefined && realpathSync(first) === ours ? first : undefined;
}

/** Variables that change how Node itself reaches other machines. */
export function examineNodeVariables({ environment }: Scene): Finding[] {
  const { NODE_EXTRA_CA_CERTS: certificates, NODE_TLS_REJECT_UNAUTHORIZED: verification } = environment;
  const findings: Finding[] = [];
  if (verification === '0')
    findings.push({
      level: 'problem',
      message: 'NODE_TLS_REJECT_UNAUTHORIZED is 0: anybody on the way can read and change what is sent.',
      remedy: 'Unset it; for a certificate of your own set NODE_EXTRA_CA_CERTS to its file.',
    });
  if (certificates && !existsSync(certificates))
    findings.push({
      level: 'warning',
      message: `NODE_EXTRA_CA_CERTS names a file that is not there: ${certificates}.`,
      remedy: 'Correct it, or unset it.',
    });
  if (isProxyUnused(environment))
    findings.push({
      level: 'warning',
      message: 'A proxy is set in the environment, and Node does not use it unasked.',
      remedy: 'Set NODE_USE_ENV_PROXY=1.',
    });
  return findings.length > 0
    ? findings
    : [{ level: 'ok', message: 'Nothing stands between Node and others.' }];
}

function isProxyUnused(environment: Scene['environment']): boolean {
  const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'];
  return names.some((name) => environment[name]) && environment.NODE_USE_ENV_PROXY !== '1';
}
