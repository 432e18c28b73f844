import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The daemon that the development server asks; `npm run mock` listens there too.
const target = process.env.WEIR_URL ?? 'http://127.0.0.1:8470';
// The daemon answers only to its own name, so that no other site can speak through a browser.
const api = { target, changeOrigin: true, headers: { origin: target } };

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // A file each, never a data: address in a style sheet: the content security policy stays short.
    assetsInlineLimit: 0,
    // Browsers of the target know modulepreload; the polyfill would be dead weight on the first page.
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': api, '/metrics': api, '/healthz': api } },
});
