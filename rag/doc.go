// Package rag keeps what characters remember.
package rag
