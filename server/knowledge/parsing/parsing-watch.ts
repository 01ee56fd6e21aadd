/** Ends a reader whose server is gone without a word: a parser that is in the middle of something hears of nothing. */
import { workerData } from 'node:worker_threads';

const lookMs = 1000;

setInterval(() => {
  if (process.ppid !== workerData) process.kill(process.pid, 'SIGKILL');
}, lookMs);
