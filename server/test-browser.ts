/** A real browser for tests: Chromium without a window, moved and typed into as a person would, over its DevTools protocol. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect } from 'vitest';

/** A tab of its own, with no cookie and no memory of another. */
export interface TestPage {
  open(url: string): Promise<void>;
  /** Waits until exactly one visible element fits, and clicks where it is. */
  click(selector: string): Promise<void>;
  /** Types into a visible field; what stood there is gone. */
  type(selector: string, text: string): Promise<void>;
  /** Waits for the page to show a text; answers with all that it shows. */
  shows(text: string | RegExp): Promise<string>;
  /** The value of an expression in the page. */
  evaluate<Value>(expression: string): Promise<Value>;
  url(): Promise<string>;
  /** What went wrong in the page so far: errors of scripts, and what its policy has blocked. */
  faults(): readonly string[];
  /** For somebody who wants to look: a PNG. */
  screenshot(file: string): Promise<void>;
}

export interface TestBrowser {
  newPage(): Promise<TestPage>;
  close(): Promise<void>;
}

const program = '/usr/bin/chromium';

/** Without Chromium, tests that need it are skipped, and say so. */
export const hasBrowser = existsSync(program);

/** A page is quick, and the machine may be busy. */
const patience = { interval: 20, timeout: 60_000 };

/** Reaches nothing but what it is told to open. */
const flags = [
  ...['--headless', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage'],
  ...['--remote-debugging-port=0', '--window-size=800,900'],
  // Its own sandbox needs another user than root.
  ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
];

export async function startBrowser(): Promise<TestBrowser> {
  const folder = await mkdtemp(join(tmpdir(), 'service-browser-'));
  const child = spawn(program, [...flags, `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { HOME: folder, PATH: process.env.PATH },
  });
  const ended = once(child, 'exit');
  const devTools = await connect(await addressOf(createInterface({ input: child.stderr })));
  return {
    newPage: () => openPage(devTools),
    async close() {
      devTools.close();
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function addressOf(lines: AsyncIterable<string>): Promise<string> {
  const said: string[] = [];
  for await (const line of lines) {
    const [, address] = /^DevTools listening on (ws:\S+)$/.exec(line) ?? [];
    if (address) return address;
    said.push(line);
  }
  throw new Error(`Chromium did not start:\n${said.join('\n')}`);
}

/** What the protocol answers with is read freely: only this file speaks it. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type Json = any;

interface DevTools {
  send(method: string, params?: object, sessionId?: string): Promise<Json>;
  listen(sessionId: string, heard: (method: string, params: Json) => void): void;
  close(): void;
}

async function connect(address: string): Promise<DevTools> {
  const socket = new WebSocket(address);
  await once(socket, 'open');
  const waiting = new Map<number, { resolve(result: Json): void; reject(error: Error): void }>();
  const listeners = new Map<string, (method: string, params: Json) => void>();
  let last = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error, method, params, sessionId } = JSON.parse(String(data));
    if (method !== undefined) return listeners.get(sessionId)?.(method, params);
    if (error) waiting.get(id)?.reject(new Error(error.message));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  });
  return {
    send(method, params = {}, sessionId) {
      last += 1;
      const answered = new Promise<Json>((resolve, reject) => waiting.set(last, { resolve, reject }));
      socket.send(JSON.stringify({ id: last, method, params, ...(sessionId && { sessionId }) }));
      return answered;
    },
    listen: (sessionId, heard) => void listeners.set(sessionId, heard),
    close: () => socket.close(),
  };
}

async function openPage(devTools: DevTools): Promise<TestPage> {
  const { browserContextId } = await devTools.send('Target.createBrowserContext');
  const { targetId } = await devTools.send('Target.createTarget', { url: 'about:blank', browserContextId });
  const { sessionId } = await devTools.send('Target.attachToTarget', { targetId, flatten: true });
  const send = (method: string, params?: object) => devTools.send(method, params, sessionId);
  const faults: string[] = [];
  const heard = new Map<string, (params: Json) => void>();
  devTools.listen(sessionId, (method, params) => {
    heard.get(method)?.(params);
    if (method === 'Runtime.exceptionThrown') faults.push(params.exceptionDetails.exception.description);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') faults.push(params.entry.text);
  });
  for (const domain of ['Page', 'Runtime', 'Log']) await send(`${domain}.enable`);

  async function evaluate<Value>(expression: string): Promise<Value> {
    const given = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await send('Runtime.evaluate', given);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** The middle of the one element that a person could mean. */
  async function placeOf(selector: string): Promise<{ x: number; y: number }> {
    const expression = `[...document.querySelectorAll(${JSON.stringify(selector)})]
      .filter((one) => one.checkVisibility() && !one.disabled)
      .map((one) => (one.scrollIntoView({ block: 'center' }), one.getBoundingClientRect()))
      .map(({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))`;
    const seen = async () => evaluate<{ x: number; y: number }[]>(expression).catch(() => []);
    await expect.poll(async () => (await seen()).length, { ...patience, message: selector }).toBe(1);
    const [place] = await seen();
    if (!place) throw new Error(`${selector} is gone`);
    return place;
  }

  async function click(selector: string): Promise<void> {
    const place = { ...(await placeOf(selector)), button: 'left', clickCount: 1 };
    await send('Input.dispatchMouseEvent', { type: 'mousePressed', ...place });
    await send('Input.dispatchMouseEvent', { type: 'mouseReleased', ...place });
  }

  return {
    evaluate,
    click,
    async open(url) {
      const loaded = new Promise((resolve) => heard.set('Page.loadEventFired', resolve));
      const { errorText } = await send('Page.navigate', { url });
      if (errorText) throw new Error(`${url}: ${errorText}`);
      await loaded;
    },
    async type(selector, text) {
      await click(selector);
      await evaluate('document.activeElement.select()');
      await send('Input.insertText', { text });
    },
    async shows(text) {
      const shown = () => evaluate<string>('document.body?.innerText ?? ""').catch(() => '');
      await expect.poll(shown, patience).toMatch(text);
      return shown();
    },
    url: () => evaluate('location.href'),
    faults: () => faults,
    async screenshot(file) {
      const { data } = await send('Page.captureScreenshot', { format: 'png' });
      await writeFile(file, data, 'base64');
    },
  };
}
